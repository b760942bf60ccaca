"""What a broker stores of a batch, byte for byte: RocketMQ 5.3.3 and ours."""

from collections.abc import Iterator

import pytest
from conftest import NewRun, Server, make_server
from tests.batch_forms import FORMS, stored


@pytest.fixture(scope="module", params=["regulus", "java-5.3.3"])
def server(request: pytest.FixtureRequest, new_run: NewRun) -> Iterator[Server]:
    server = make_server(request.param, new_run(f"batches-{request.param}"))
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.mark.parametrize("number", range(len(FORMS)), ids=[form.name for form in FORMS])
async def test_what_is_stored_of_a_batch(server: Server, number: int) -> None:
    form = FORMS[number]
    assert await stored(server.broker_address, form, f"Batches-{number}") == form.stored
