//! What the store says to a server, to be said again by others byte by byte.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use tollgate_core::Quota;
use tollgate_redis::{RedisOptions, RedisStore, StoreSettings};
use tollgate_store::{Charge, LimitOptions, Store};

/// A charge of 1 of one key, as the store sends it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// The name under which a server knows the script.
    pub(crate) name: Vec<u8>,
    pub(crate) source: Vec<u8>,
    pub(crate) argument: Vec<u8>,
}

impl Recorded {
    /// Lets the store charge a key on a server that only listens.
    pub(crate) async fn of(quota: Quota) -> Recorded {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, recorded) = channel();
        // It ends with this process: it holds nothing that others wait for.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let sender = sender.clone();
                thread::spawn(move || listen(stream, &sender));
            }
        });
        let settings = StoreSettings { deadline: Duration::from_secs(5), ..StoreSettings::default() };
        let store = RedisStore::connect(&RedisOptions::standalone(address.to_string()), settings, |_| {}).unwrap();
        let limit = store.limit("recorded", quota, LimitOptions::default()).unwrap();
        let charge = Charge::new(&limit, b"key", 1);
        store.decide(&[charge]).await;
        recorded.recv_timeout(Duration::from_secs(5)).unwrap()
    }

    /// The argument with a clock of the caller's own: a double in front, where the store says -1 for the server's.
    pub(crate) fn argument_at(&self, now_us: u64) -> Vec<u8> {
        let mut argument = self.argument.clone();
        argument[..8].copy_from_slice(&(now_us as f64).to_le_bytes());
        argument
    }
}

/// Answers like a server that has forgotten its scripts, so that the source is sent too.
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
