//! What a job asks of TLS, as the library wants it.
use crate::job::{Job, Problem, Protocol, TlsOptions, TlsVersion};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Sessions that a load thread can resume.
const SESSIONS: usize = 256;

/// What is wrong, and with which key of `tls`.
type Wrong = (&'static str, String);

/// A configuration for each target that has an `https` URL. All files are read here.
pub fn compile(job: &Job) -> Result<Vec<Option<Arc<ClientConfig>>>, Vec<Problem>> {
    let mut problems = Vec::new();
    let configs = job.targets.iter().map(|target| {
        if !target.instances.iter().any(|i| i.url.tls) {
            return None;
        }
        let found = build(&target.tls, target.protocol);
        let note = |(key, message): Wrong| {
            problems.push(Problem { path: format!("{}.tls.{key}", target.at), message });
        };
        found.map_err(note).ok().map(Arc::new)
    });
    let configs = configs.collect();
    if problems.is_empty() { Ok(configs) } else { Err(problems) }
}

/// The same for one thread: threads do not share the sessions that they can resume, nor a lock.
pub fn for_thread(config: &ClientConfig, resumption: bool) -> Arc<ClientConfig> {
    let mut own = config.clone();
    if resumption {
        own.resumption = Resumption::in_memory_sessions(SESSIONS);
    }
    Arc::new(own)
}

fn build(options: &TlsOptions, protocol: Protocol) -> Result<ClientConfig, Wrong> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions(options))
        .map_err(|e| ("min_version", e.to_string()))?;
    let builder = if options.insecure {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(super::verify::Anyone(provider)))
    } else {
        builder.with_root_certificates(roots(options.ca_file.as_deref())?)
    };
    let mut config = match (&options.cert_file, &options.key_file) {
        (Some(cert), Some(key)) => builder
            .with_client_auth_cert(certificates(cert).map_err(|m| ("cert_file", m))?, private_key(key)?)
            .map_err(|e| ("key_file", format!("{} does not fit the certificate: {e}", key.display())))?,
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = match protocol {
        Protocol::Http1 => vec![b"http/1.1".to_vec()],
        Protocol::Http2 => vec![b"h2".to_vec()],
        Protocol::Auto => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    config.resumption = Resumption::disabled();
    Ok(config)
}

fn versions(options: &TlsOptions) -> Vec<&'static SupportedProtocolVersion> {
    let known = [(TlsVersion::V13, &TLS13), (TlsVersion::V12, &TLS12)];
    let allowed = options.min_version..=options.max_version;
    known.into_iter().filter(|(version, _)| allowed.contains(version)).map(|(_, found)| found).collect()
}

fn roots(ca_file: Option<&Path>) -> Result<Arc<RootCertStore>, Wrong> {
    let Some(path) = ca_file else { return system_roots().clone().map_err(|m| ("ca_file", m)) };
    let mut store = RootCertStore::empty();
    for certificate in certificates(path).map_err(|m| ("ca_file", m))? {
        let bad = |e| ("ca_file", format!("{}: not a certificate that can be trusted: {e}", path.display()));
        store.add(certificate).map_err(bad)?;
    }
    Ok(Arc::new(store))
}

/// Read once: there are more than a hundred of them.
fn system_roots() -> &'static Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Result<Arc<RootCertStore>, String>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(found.certs);
        if added > 0 {
            return Ok(Arc::new(store));
        }
        let why = found.errors.first().map_or(String::new(), |e| format!(" ({e})"));
        Err(format!("missing, and this system has no root certificates{why}; install them or name a ca_file"))
    })
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = path.display();
    let all = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let all = all.map_err(|e| format!("cannot read certificates from {shown}: {e}"))?;
    if all.is_empty() { Err(format!("{shown} holds no PEM certificate")) } else { Ok(all) }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, Wrong> {
    // The content of the file never gets into the message.
    PrivateKeyDer::from_pem_file(path)
        .map_err(|e| ("key_file", format!("cannot read a PEM private key from {}: {e}", path.display())))
}

/// What signatures are checked with.
pub(super) type Provider = Arc<CryptoProvider>;
