use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::Reply;

/// No answer on loopback takes so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// A keep-alive connection that sends the given bytes unchanged, even if they are malformed.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    pub(crate) async fn get(&mut self, target: &str) -> Reply {
        self.send("GET", target, &[]).await
    }

    pub(crate) async fn send(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) -> Reply {
        self.write(method, target, headers).await;
        self.read().await
    }

    /// Sends a request and does not wait for the answer.
    pub(crate) async fn write(&mut self, method: &str, target: &str, headers: &[(&str, &str)]) {
        let mut text = format!("{method} {target} HTTP/1.1\r\nhost: localhost\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        self.stream.get_mut().write_all(text.as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Reply {
        timeout(PATIENCE, self.read_whole()).await.expect("the server answers")
    }

    async fn read_whole(&mut self) -> Reply {
        let (status, headers) = self.read_head().await;
        let length = headers.get("content-length").map(|length| length.to_str().unwrap().parse().unwrap());
        let body = match length {
            Some(length) => self.read_exactly(length).await,
            None => self.read_chunks().await,
        };
        Reply { status, headers, body }
    }

    /// The status and the fields, leaving the body where it is.
    pub(crate) async fn read_head(&mut self) -> (u16, HeaderMap) {
        let status_line = self.read_line().await;
        let status = status_line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {status_line}"));
        let mut headers = HeaderMap::new();
        loop {
            let line = self.read_line().await;
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.append(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap());
        }
        (status.parse().unwrap(), headers)
    }

    /// One piece of a body that comes in pieces; empty at its end.
    pub(crate) async fn read_chunk(&mut self) -> Bytes {
        let length = usize::from_str_radix(&self.read_line().await, 16).unwrap();
        let chunk = self.read_exactly(length).await;
        self.read_line().await;
        chunk
    }

    async fn read_chunks(&mut self) -> Bytes {
        let mut body = Vec::new();
        loop {
            let chunk = self.read_chunk().await;
            if chunk.is_empty() {
                return body.into();
            }
            body.extend_from_slice(&chunk);
        }
    }

    async fn read_exactly(&mut self, length: usize) -> Bytes {
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await.unwrap();
        body.into()
    }

    async fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).await.unwrap();
        line.trim_end_matches("\r\n").to_owned()
    }
}
