//! Whom TLS trusts, and what it shows: `--ssl-mode` and the files beside it become rustls's settings.
//!
//! Files are read once, before anything connects. Must not import: anything that does I/O on a connection.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::spec::{MySqlAddress, SslMode};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{option} {path} cannot be used: {reason}", path = .path.display())]
    File { option: &'static str, path: PathBuf, reason: String },
    #[error("this machine has no certificates of authorities to trust ({0}); give one by --ssl-ca")]
    NoRoots(String),
    #[error("--ssl-cert and --ssl-key cannot be used: {0}")]
    Client(rustls::Error),
}

/// The settings of all connections to an address, which also lets one resume the TLS session of another.
pub fn config(address: &MySqlAddress) -> Result<Arc<ClientConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        // It fails only for a provider that lacks their ciphers.
        .expect("ring has the ciphers of TLS 1.2 and 1.3");
    let trusting = versions.dangerous().with_custom_certificate_verifier(trust(address, provider)?);
    let config = match &address.ssl.client {
        None => trusting.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificates = certificates("--ssl-cert", certificate)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable("--ssl-key", key, &error))?;
            trusting.with_client_auth_cert(certificates, key).map_err(TlsError::Client)?
        }
    };
    Ok(Arc::new(config))
}

/// What the server's certificate must be for.
pub fn server_name(address: &MySqlAddress) -> &str {
    match (&address.ssl.server_name, &address.socket) {
        (Some(name), _) => name,
        (None, Some(_)) => "localhost",
        (None, None) => &address.host,
    }
}

/// What to do about a server whose certificate is refused.
pub fn advice(error: &io::Error) -> Option<&'static str> {
    let Some(rustls::Error::InvalidCertificate(error)) = error.get_ref()?.downcast_ref() else { return None };
    Some(match error {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is of no authority that is trusted; give the right one by --ssl-ca"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; renew it on the server"
        }
        CertificateError::NotValidForNameContext { presented, .. } if presented.is_empty() => {
            "its certificate names no server; give it one that does, or look at the authority only by --ssl-mode verify-ca"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; connect by that name, give it by --ssl-server-name, or look at the \
             authority only by --ssl-mode verify-ca"
        }
        _ => "its certificate is refused; replace it on the server, or look at none by --ssl-mode required",
    })
}

fn trust(address: &MySqlAddress, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    if !address.ssl_mode.verifies() {
        return Ok(Arc::new(AnyServer { provider }));
    }
    let (roots, whose) = match &address.ssl.ca {
        Some(path) => (authorities(path)?, path.clone()),
        None => (platforms_authorities()?, PathBuf::new()),
    };
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unusable("--ssl-ca", &whose, &error))?;
    Ok(match address.ssl_mode {
        SslMode::VerifyIdentity => verifier,
        _ => Arc::new(AnyName { verifier }),
    })
}

fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("--ssl-ca", path)? {
        roots.add(certificate).map_err(|error| unusable("--ssl-ca", path, &error))?;
    }
    Ok(roots)
}

/// Those of them that can be read, since every platform has some that nobody can.
fn platforms_authorities() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    match roots.is_empty() {
        false => Ok(roots),
        true => {
            let reason = found.errors.first().map_or_else(|| "none was found".into(), ToString::to_string);
            Err(TlsError::NoRoots(reason))
        }
    }
}

/// All certificates of a file, of which there must be one.
fn certificates(option: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(none) if none.is_empty() => Err(unusable(option, path, &"it holds no certificate in PEM")),
        read => read.map_err(|error| unusable(option, path, &error)),
    }
}

fn unusable(option: &'static str, path: &Path, reason: &dyn std::fmt::Display) -> TlsError {
    TlsError::File { option, path: path.into(), reason: reason.to_string() }
}

/// A certificate of a trusted authority, whatever name it is for.
#[derive(Debug)]
struct AnyName {
    verifier: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        // The name is looked at last, so everything else is right where only the name is wrong.
        match self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Encrypts without asking who the server is, which is what ssl-mode preferred and required mean to MySQL's clients.
#[derive(Debug)]
struct AnyServer {
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    // Proof of owning a certificate that anyone may have made proves nothing, and old servers make certificates of a
    // version that could not even be read for it.
    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
