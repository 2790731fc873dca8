//! Records the bytes that the store sends to a server, so that other clients can send the same.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tollgate_core::Quota;
use tollgate_redis::{RedisOptions, RedisStore, RedisStoreSettings};
use tollgate_store::{Charge, LimitOptions, Store};

/// A charge of 1 of one key, as the store sends it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The SHA-1 of the script.
    pub(crate) name: Vec<u8>,
    pub(crate) source: Vec<u8>,
    pub(crate) argument: Vec<u8>,
}

impl Recorded {
    /// Records a charge of the store to a listener that acts as a server.
    pub(crate) async fn of(quota: Quota) -> Recorded {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, recorded) = channel();
        // The task ends with this process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                thread::spawn(move || listen(stream, &sender));
            }
        });
        let settings = RedisStoreSettings { deadline: Duration::from_secs(5), ..RedisStoreSettings::default() };
        let store = RedisStore::connect(&RedisOptions::standalone(address.to_string()), settings, |_| {}).unwrap();
        let limit = store.limit("recorded", quota, LimitOptions::default()).unwrap();
        let charge = Charge::new(&limit, b"key", 1);
        store.check_all(&[charge]).await;
        recorded.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    /// The argument with a simulated clock: the leading double is a time, where the store sends -1 for the server's clock.
    pub(crate) fn argument_at(&self, now_us: u64) -> Vec<u8> {
        let mut argument = self.argument.clone();
        argument[..8].copy_from_slice(&(now_us as f64).to_le_bytes());
        argument
    }
}

/// Replies like a server without the script, so that the store sends its source too.
fn listen(stream: TcpStream, recorded: &Sender<Recorded>) {
    let mut reader = BufReader::new(stream);
    let mut name = Vec::new();
    while let Some(parts) = command(&mut reader) {
        let answer: &[u8] = match parts.as_slice() {
            [command, script, ..] if command == b"EVALSHA" => {
                name.clone_from(script);
                b"-NOSCRIPT No matching script.\r\n"
            }
            [command, source, _, _, argument] if command == b"EVAL" => {
                let (source, argument) = (source.clone(), argument.clone());
                let _ = recorded.send(Recorded { name: name.clone(), source, argument });
                b"-ERR only listening\r\n"
            }
            _ => b"+OK\r\n",
        };
        if reader.get_mut().write_all(answer).is_err() {
            return;
        }
    }
}

fn command(reader: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let count = number(reader)?;
    (0..count).map(|_| part(reader)).collect()
}

fn part(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut bytes = vec![0; number(reader)? + 2];
    reader.read_exact(&mut bytes).ok()?;
    bytes.truncate(bytes.len() - 2);
    Some(bytes)
}

fn number(reader: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    line.trim_end().get(1..)?.parse().ok()
}
