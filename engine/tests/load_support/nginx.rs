//! nginx, for tests against a server that was not made for them.
use super::ports;
use super::tls::Authority;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Runs until it is dropped.
pub struct Nginx {
    process: Child,
    dir: tempfile::TempDir,
    /// Speaks plain HTTP.
    pub plain: u16,
    /// Speaks TLS.
    pub tls: u16,
}

impl Nginx {
    /// Serves `/` (2 bytes), `/big` (5 MB), `/chunked`, and `/put` (takes up to 1 MB) on TCP, TLS and a Unix socket.
    pub fn start(authority: &Authority) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (cert, key) = authority.write("nginx", &authority.issue(&["127.0.0.1"]));
        std::fs::write(dir.path().join("big"), vec![b'b'; 5_000_000]).unwrap();
        let [plain, tls] = ports::free();
        let at = dir.path().display();
        let config = format!(
            "worker_processes 1; daemon off; pid {at}/pid; error_log {at}/error.log;
             events {{ worker_connections 1024; }}
             http {{
               access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/f;
               uwsgi_temp_path {at}/u; scgi_temp_path {at}/s; keepalive_requests 100000;
               server {{
                 listen 127.0.0.1:{plain}; listen 127.0.0.1:{tls} ssl; listen unix:{at}/sock;
                 ssl_certificate {cert}; ssl_certificate_key {key}; root {at};
                 location = / {{ return 200 ok; }}
                 location = /big {{ }}
                 location = /chunked {{ proxy_pass http://127.0.0.1:{plain}/big; proxy_http_version 1.1;
                                        proxy_hide_header content-length; gzip on; gzip_types *; gzip_min_length 1; }}
                 location = /put {{ client_max_body_size 1m; proxy_pass http://127.0.0.1:{plain}/; }}
               }}
             }}",
            cert = cert.display(),
            key = key.display(),
        );
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config).unwrap();
        let process = Command::new("/usr/sbin/nginx").arg("-c").arg(&file).arg("-e").arg("stderr").spawn();
        let process = process.expect("nginx: apt-get install nginx-light");
        let nginx = Self { process, dir, plain, tls };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(("127.0.0.1", plain)).is_err()
            || UnixStream::connect(nginx.socket()).is_err()
        {
            assert!(Instant::now() < until, "nginx does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        nginx
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("sock")
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master ends its worker only when it is asked to.
        if let Some(pid) = rustix::process::Pid::from_raw(self.process.id() as i32) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _ = self.process.wait();
    }
}
