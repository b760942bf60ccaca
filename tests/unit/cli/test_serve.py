"""What servers say of who may reach them."""

import pytest

from regulus.cli.serve import guarded, open_warning


@pytest.mark.parametrize(("guard", "signer"), [("aclEnable", "an account"), ("authenticationEnabled", "a user")])
def test_a_guarded_server_says_who_signs(guard, signer):
    line = f"requests must be signed by {signer} ({guard})"
    assert guarded("127.0.0.1", guard) == line
    assert open_warning("127.0.0.1", guard) is None
    assert open_warning("0.0.0.0", guard) == f"{line}; without TLS, anyone on the way can read them"


def test_an_open_server_says_that_nothing_guards_it():
    assert guarded("0.0.0.0", "") is None
    assert open_warning("127.0.0.1") is None
    assert "nothing guards this server" in str(open_warning("0.0.0.0"))
