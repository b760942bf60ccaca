"""A runner of client commands."""

import pytest
from click.testing import CliRunner

from regulus.errors import RegulusError


@pytest.fixture
def run(regulus_server):
    """Runs a command against the server and gives what it prints."""
    def call(command, *arguments, stdin=None, fails=False):
        result = CliRunner().invoke(command, arguments, input=stdin,
                                    env={"NAMESRV_ADDR": regulus_server.name_server_address})
        if fails:
            assert result.exit_code != 0
            return str(result.exception) if isinstance(result.exception, RegulusError) else result.output
        assert result.exit_code == 0, (result.output, result.exception)
        return result.output
    call.name_server = regulus_server.name_server_address
    return call
