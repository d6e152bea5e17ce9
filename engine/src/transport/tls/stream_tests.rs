use super::*;
use rustix::io::write;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustls::{AlertDescription, RootCertStore};

/// A server that said these bytes and closed, before it was sent anything.
fn gone_after(words: &[u8]) -> TlsStream {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("two ends of a socket");
    write(&theirs, words).expect("room");
    drop(theirs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_protocol_versions(rustls::ALL_VERSIONS);
    let config =
        config.expect("versions").with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let name = ServerName::try_from("shop.example").expect("a name");
    TlsStream::new(ours, &Arc::new(config), &name, &Rc::default()).expect("a stream")
}

/// What it is sent then fails, but why it refused is still there to be read.
#[test]
fn the_last_words_of_a_server_are_read() {
    // A fatal alert: handshake_failure.
    let failure = gone_after(&[21, 3, 3, 0, 2, 2, 40]).handshake().expect_err("it has gone");
    let refused = Error::AlertReceived(AlertDescription::HandshakeFailure);
    assert!(matches!(&failure, Failure::Tls(error) if *error == refused), "{failure:?}");
}

#[test]
fn a_server_that_goes_without_a_word_has_broken_the_connection() {
    let failure = gone_after(&[]).handshake().expect_err("it has gone");
    assert!(matches!(failure, Failure::Socket(Errno::PIPE)), "{failure:?}");
}
