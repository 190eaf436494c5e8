"""What is wrong with a receiver's certificate, in words. OpenSSL tells neither when it ended nor whose it is.

The certificates are those that the receiver presented, and nobody vouches for them: names among them may be
anything. `Failure` makes them safe to show.
"""

import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

# OpenSSL's numbers of what it found. Source: openssl/x509_vfy.h.
_NOT_YET_VALID, _EXPIRED = 9, 10
_OTHER_NAME, _OTHER_ADDRESS = 62, 64

_MAX_NAMES = 10

Certificate = Mapping[str, Any]
"""As `ssl.SSLSocket.getpeercert` describes one."""


class CertificateRefused(ssl.SSLCertVerificationError):
    """A certificate that was not accepted; `words` say why."""

    def __init__(self, words: str) -> None:
        super().__init__(words)
        self.words = words


class TellingTls(ssl.SSLObject):
    """One end of a TLS connection that says more of a certificate which it refuses.

    unmatched_host: whose the certificate must be, where OpenSSL was not asked that.
    """

    unmatched_host: str | None = None

    def do_handshake(self) -> None:
        """Go on with the handshake. Raises CertificateRefused."""
        try:
            super().do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise CertificateRefused(words_for(error, self._presented())) from error
        if self.unmatched_host is None:
            return
        # The certificate is in order; it may be for another host.
        try:
            certificate = self.getpeercert() or {}
        except (ValueError, ssl.SSLError) as error:
            raise CertificateRefused("certificate cannot be read") from error
        if not is_for(self.unmatched_host, certificate):
            raise CertificateRefused(_misnamed(certificate))

    def _presented(self) -> Sequence[Certificate]:
        """Return what the receiver presented, its own first; nothing where that cannot be read."""
        try:
            # Private until Python 3.13, which does not describe them even then;
            # test_sender_reasons fails if this stops working.
            own: Any = self
            return [certificate.get_info() for certificate in own._sslobj.get_unverified_chain() or ()]
        except (AttributeError, ValueError, ssl.SSLError):
            return ()


def is_for(host: str, certificate: Certificate) -> bool:
    """Tell whether a certificate names a host, or has a wildcard for its first label and two others behind.

    Source: RFC 9525, 6.3; OpenSSL's X509_check_host, but for underscores.
    """
    _, _, parent = host.partition(".")
    names = {str(name).lower() for kind, name in certificate.get("subjectAltName", ()) if kind == "DNS"}
    return host in names or ("." in parent and f"*.{parent}" in names)


def words_for(error: ssl.SSLCertVerificationError, presented: Sequence[Certificate]) -> str:
    """Say why a certificate is refused: by the dates and names of what was presented, or as OpenSSL does."""
    code = error.verify_code
    if presented and code == _EXPIRED:
        return _expired([_day(certificate["notAfter"]) for certificate in presented])
    if presented and code == _NOT_YET_VALID:
        return f"certificate is not valid before {max(_day(each['notBefore']) for each in presented)}"
    if presented and code in (_OTHER_NAME, _OTHER_ADDRESS):
        return _misnamed(presented[0])
    return error.verify_message


def _expired(days: Sequence[date]) -> str:
    """Say which has expired: OpenSSL does not, and what is presented need not all have been looked at."""
    own, first = days[0], min(days)
    if own == first:
        return f"certificate expired on {own}"
    return f"certificate of the chain expired on {first}, or the receiver's own on {own}"


def _misnamed(certificate: Certificate) -> str:
    names = [str(name) for _, name in certificate.get("subjectAltName", ())[:_MAX_NAMES]]
    return f"certificate is for other names: {', '.join(names)}" if names else "certificate is for no name"


def _day(text: str) -> date:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC).date()
