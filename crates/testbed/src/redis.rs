use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const STARTS_WITHIN: Duration = Duration::from_secs(10);

/// One Redis server without persistence, ended when dropped.
#[derive(Debug)]
pub struct RedisServer {
    process: Child,
    address: SocketAddr,
}

impl RedisServer {
    /// Starts `redis-server` on a free port, with more arguments such as `--maxmemory 10mb`.
    pub fn start(arguments: &[&str]) -> io::Result<RedisServer> {
        let port = free_port()?;
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| {
                io::Error::new(error.kind(), format!("redis-server: {error} (Debian: apt-get install redis-server)"))
            })?;
        let server = RedisServer { process, address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)) };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn wait_until_it_answers(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match ping(self.address) {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > STARTS_WITHIN => return Err(error),
                Err(_) => sleep(Duration::from_millis(5)),
            }
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn ping(address: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"PING\r\n")?;
    // Also an error answers: whoever asks for a password is there.
    stream.read_exact(&mut [0; 1])
}
