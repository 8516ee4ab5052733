//! What an application may know of a connection's TLS session.

use super::certificate::{Certificate, to_pem};

/// Facts about a session, which do not change after its handshake.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TlsDetails {
    /// The version's number (RFC 8446 section 4.2.1): 0x0304 is TLS 1.3.
    pub version: u16,
    /// The cipher suite's number (RFC 8446 appendix B.4).
    pub cipher_suite: u16,
    /// The name that the client asked for (RFC 6066 section 3).
    pub server_name: Option<String>,
    /// The server's certificate in DER, if it is known.
    pub server_certificate: Option<Vec<u8>>,
    /// The client's certificate in DER, which was verified, and those that it sent after it.
    pub client_certificates: Vec<Vec<u8>>,
}

impl TlsDetails {
    /// Bytes that it holds in memory.
    pub fn held_bytes(&self) -> usize {
        let server_name = self.server_name.as_ref().map_or(0, String::capacity);
        let server = self.server_certificate.as_ref().map_or(0, Vec::capacity);
        let clients = self.client_certificates.iter().map(Vec::capacity);
        size_of::<TlsDetails>() + server_name + server + clients.sum::<usize>()
    }

    /// The version as OpenSSL and Python name it.
    pub fn version_name(&self) -> &'static str {
        match self.version {
            0x0304 => "TLSv1.3",
            0x0303 => "TLSv1.2",
            _ => "unknown",
        }
    }

    /// The cipher suite as OpenSSL and Python name it.
    pub fn cipher_name(&self) -> &'static str {
        match self.cipher_suite {
            0x1301 => "TLS_AES_128_GCM_SHA256",
            0x1302 => "TLS_AES_256_GCM_SHA384",
            0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
            0xc02b => "ECDHE-ECDSA-AES128-GCM-SHA256",
            0xc02c => "ECDHE-ECDSA-AES256-GCM-SHA384",
            0xc02f => "ECDHE-RSA-AES128-GCM-SHA256",
            0xc030 => "ECDHE-RSA-AES256-GCM-SHA384",
            0xcca8 => "ECDHE-RSA-CHACHA20-POLY1305",
            0xcca9 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            _ => "unknown",
        }
    }

    /// The server's certificate in PEM.
    pub fn server_pem(&self) -> Option<String> {
        let der = self.server_certificate.as_deref()?;
        Some(to_pem("CERTIFICATE", der))
    }

    /// The client's certificates in PEM.
    pub fn client_pems(&self) -> impl Iterator<Item = String> {
        let certificates = self.client_certificates.iter();
        certificates.map(|der| to_pem("CERTIFICATE", der))
    }

    /// What can be read of the client's certificate, if it sent one.
    pub fn client(&self) -> Option<Certificate<'_>> {
        Certificate::read(self.client_certificates.first()?)
    }
}
