//! Certificates made on the spot, and a server that shows them.
use super::server::{Peer, Server};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

static AUTHORITIES: AtomicUsize = AtomicUsize::new(1);

/// An authority and the files that a client needs.
pub struct Authority {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
    root: CertificateDer<'static>,
}

/// A certificate and its key.
pub struct Identity {
    cert: CertificateDer<'static>,
    key: PrivatePkcs8KeyDer<'static>,
    cert_pem: String,
    key_pem: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // Two authorities of the same name would not be told apart by name.
        let name = format!("authority {}", AUTHORITIES.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let cert = params.self_signed(&key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("ca.pem"), cert.pem()).unwrap();
        Self { dir, root: cert.der().clone(), issuer: Issuer::new(params, key) }
    }

    /// For these names.
    pub fn issue(&self, names: &[&str]) -> Identity {
        self.issue_with(names, |_| {})
    }

    /// For these names, with changes.
    pub fn issue_with(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            cert: cert.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()),
            cert_pem: cert.pem(),
            key_pem: key.serialize_pem(),
        }
    }

    pub fn ca_file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// Writes certificate and key.
    pub fn write(&self, name: &str, identity: &Identity) -> (PathBuf, PathBuf) {
        let file = |end: &str, text: &str| {
            let path = self.dir.path().join(format!("{name}.{end}"));
            std::fs::write(&path, text).unwrap();
            path
        };
        (file("pem", &identity.cert_pem), file("key", &identity.key_pem))
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A server with this certificate, for these versions; with `clients` only for those that show one.
    pub fn config(
        &self,
        identity: &Identity,
        versions: &[&'static SupportedProtocolVersion],
        clients: bool,
    ) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .unwrap();
        let builder = if clients {
            let mut roots = RootCertStore::empty();
            roots.add(self.root.clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let key = PrivateKeyDer::from(identity.key.clone_key());
        let mut config = builder.with_single_cert(vec![identity.cert.clone()], key).unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.send_tls13_tickets = 2;
        config.ticketer = rustls::crypto::ring::Ticketer::new().unwrap();
        config
    }
}

/// What a server saw of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub server_name: Option<String>,
    pub alpn: Option<Vec<u8>>,
    pub resumed: bool,
    pub version: String,
}

/// Answers every request over TLS with its own body, or so many bytes as its path says.
pub struct TlsServer {
    pub server: Server,
    pub seen: Arc<Mutex<Vec<Seen>>>,
}

impl TlsServer {
    pub fn start(config: ServerConfig) -> Self {
        let config = Arc::new(config);
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let log = Arc::clone(&seen);
        let server = Server::start(move |peer| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, peer.stream.try_clone().unwrap());
            if serve(&mut stream, &log).is_err() {
                // The client has to see the alert before the end.
                let _ = stream.conn.complete_io(&mut stream.sock);
            }
            drop(peer);
        });
        Self { server, seen }
    }

    /// Refuses every body as soon as it has seen that there is one.
    pub fn start_early(config: ServerConfig) -> Self {
        let config = Arc::new(config);
        let server = Server::start(move |peer| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, peer.stream.try_clone().unwrap());
            let mut some = [0; 1000];
            if stream.read(&mut some).is_err() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
            let _ = stream.write_all(b"HTTP/1.1 413 Too much\r\ncontent-length: 0\r\n\r\n");
            let _ = stream.flush();
            // Until the client has had enough; nothing more is read.
            std::thread::sleep(std::time::Duration::from_millis(300));
        });
        Self { server, seen: Arc::default() }
    }

    /// Answers one request of each connection with these bytes, and ends it with or without saying so.
    pub fn ending(config: ServerConfig, answer: &'static str, says_so: bool) -> Self {
        let config = Arc::new(config);
        let server = Server::start(move |peer| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(session, peer.stream.try_clone().unwrap());
            let mut request = [0; 4096];
            if stream.read(&mut request).is_err() || stream.write_all(answer.as_bytes()).is_err() {
                return;
            }
            if says_so {
                stream.conn.send_close_notify();
            }
            let _ = stream.flush();
        });
        Self { server, seen: Arc::default() }
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(
    stream: &mut StreamOwned<ServerConnection, std::net::TcpStream>,
    log: &Mutex<Vec<Seen>>,
) -> std::io::Result<()> {
    stream.conn.complete_io(&mut stream.sock)?;
    let session = &stream.conn;
    log.lock().unwrap().push(Seen {
        server_name: session.server_name().map(str::to_owned),
        alpn: session.alpn_protocol().map(<[u8]>::to_vec),
        resumed: session.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
        version: format!("{:?}", session.protocol_version().unwrap()),
    });
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read(&mut byte)? == 0 {
                return Ok(());
            }
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body)?;
        let wanted = head.split(['/', ' ']).find_map(|p| p.parse::<usize>().ok());
        let body = wanted.map_or(body, |n| vec![b'x'; n]);
        write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len())?;
        stream.write_all(&body)?;
        stream.flush()?;
    }
}

/// Keeps a connection open without a word, for those who wait.
pub fn mute(mut peer: Peer) {
    peer.linger();
}
