"""Faults of TLS: who is let in, who is believed, and what leaves in plain text."""

from tests.mutants import Mutant

_TLS = "regulus/transport/tls.py"
_CONNECTION = "regulus/transport/connection.py"
_TESTS = ("tests/unit/transport/test_tls.py",)
_SERVERS = ("tests/unit/server/test_tls_servers.py",)

MUTANTS = [
    Mutant(name="plain text is let in where TLS is enforced", path=_CONNECTION,
           old="            if not tls.is_enforced:\n                return True\n", new="            return True\n",
           tests=_TESTS),
    Mutant(name="TLS is spoken where it is disabled", path=_TLS,
           old="        if config.tls_server_mode is TlsMode.DISABLED:\n", new="        if False:\n", tests=_TESTS),
    Mutant(name="whoever answers is believed", path=_TLS,
           old="    if not config.tls_client_auth_server:\n", new="    if True:\n", tests=_TESTS),
    Mutant(name="a certificate counts for any address", path=_TLS,
           old="context.check_hostname = config.tls_client_check_host", new="context.check_hostname = False",
           tests=_TESTS),
    Mutant(name="a client needs no certificate", path=_TLS,
           old="            context.verify_mode = (ssl.CERT_REQUIRED if config.client_auth is ClientAuth.REQUIRE\n"
               "                                   else ssl.CERT_OPTIONAL)\n",
           new="            context.verify_mode = ssl.CERT_OPTIONAL\n",
           tests=_TESTS),
    Mutant(name="the older name of require counts for nothing", path=_TLS,
           old="return ClientAuth.REQUIRE if self.tls_server_auth_client else ", new="return ", tests=_TESTS),
    Mutant(name="what comes right behind a handshake is answered in plain text", path=_TLS,
           old="        transport, early, context, server_side=True",
           new="        transport, protocol, context, server_side=True", tests=_TESTS),
    Mutant(name="what comes right behind a handshake is lost", path=_TLS,
           old="    _feed(protocol, bytes(early.data))\n", new="", tests=_TESTS),
    Mutant(name="a broken pair of files takes the certificate away", path=_TLS,
           old="            self._told = str(error)\n            return\n",
           new="            self._told = str(error)\n            self.context = None\n            return\n",
           tests=_TESTS),
    Mutant(name="a changed certificate is never read", path=_TLS,
           old="        if stamps == self._seen:\n", new="        if True:\n", tests=_TESTS),
    Mutant(name="a peer lets keys be agreed on again and again", path=_TLS, old="ssl.OP_NO_RENEGOTIATION | ", new="",
           tests=_TESTS),
    Mutant(name="older versions are left to the system", path=_TLS,
           old="    context.minimum_version = ssl.TLSVersion.TLSv1_2\n",
           new="    context.minimum_version = ssl.TLSVersion.TLSv1\n", tests=_TESTS),
    Mutant(name="a handshake may take for ever", path=_TLS,
           old="ssl_handshake_timeout=HANDSHAKE_S_MAX", new="ssl_handshake_timeout=3600.0", tests=_TESTS),
    Mutant(name="slaves copy in plain text", path="regulus/server/ha_server.py",
           old="        if self._tls is None or self._tls.context is None:\n", new="        if True:\n",
           tests=_SERVERS),
    Mutant(name="whoever may not copy the log takes the handshakes of slaves", path=_TLS,
           old="        if not self._is_welcome(host):\n", new="        if False:\n",
           tests=("tests/unit/server/test_ha_server.py",)),
    Mutant(name="a broker talks to its name server in plain text", path="regulus/server/nameserver_link.py",
           old=",\n                                       config=self._transport_config)", new=")", tests=_SERVERS),
]
