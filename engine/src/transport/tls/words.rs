//! Why a certificate was refused, where the library's own words are its names for things.
use rustls::{CertificateError, Error};

/// What went wrong, for people.
pub fn words(error: &Error) -> String {
    let Error::InvalidCertificate(CertificateError::Other(inner)) = error else { return error.to_string() };
    // The type behind it is that of a library which this crate does not name; its variant is all that it says.
    match format!("{:?}", inner.0).as_str() {
        "CaUsedAsEndEntity" => {
            "invalid peer certificate: it is one of an authority (basicConstraints CA:TRUE), such as \
            `openssl req -x509` makes; a server has to show one of its own. Make a certificate with \
            basicConstraints=CA:FALSE, signed by itself or by that authority, or set tls.insecure"
                .into()
        }
        other => format!("invalid peer certificate: {other}"),
    }
}
