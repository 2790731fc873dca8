use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// The TLS settings of a listener.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encryption {
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<super::tls::Tls>,
    /// The ALPN protocols. Empty: ALPN is not used.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub(crate) protocols: &'static [&'static [u8]],
}

/// A client connection, encrypted or not.
#[cfg(feature = "tls")]
pub(crate) type ClientStream = tokio_util::either::Either<TcpStream, Box<tokio_rustls::server::TlsStream<TcpStream>>>;
#[cfg(not(feature = "tls"))]
pub(crate) type ClientStream = TcpStream;

impl Encryption {
    /// Sets the ALPN protocols.
    pub(crate) fn with_protocols(mut self, protocols: &'static [&'static [u8]]) -> Encryption {
        self.protocols = protocols;
        self
    }

    /// Returns whether connections begin with a TLS handshake.
    pub(super) fn has_handshake(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Completes the TLS handshake of an accepted connection, if the listener uses TLS.
    #[cfg(feature = "tls")]
    pub(super) async fn establish(&self, connection: TcpStream) -> Result<ClientStream, HandshakeError> {
        let Some(tls) = &self.tls else { return Ok(ClientStream::Left(connection)) };
        let mut first = [0];
        let received = connection.peek(&mut first).await.map_err(HandshakeError::Failed)?;
        if received > 0 && is_plaintext(first[0]) {
            if self.protocols.contains(&HTTP_1_1) && first[0].is_ascii_alphabetic() {
                refuse_plain_http(connection).await;
            }
            return Err(HandshakeError::Plaintext);
        }
        let stream = tls.accept(connection, self.protocols).await.map_err(HandshakeError::Failed)?;
        Ok(ClientStream::Right(Box::new(stream)))
    }

    #[cfg(not(feature = "tls"))]
    pub(super) async fn establish(&self, connection: TcpStream) -> Result<ClientStream, HandshakeError> {
        Ok(connection)
    }
}

/// Why the TLS handshake of a connection did not complete.
#[cfg_attr(not(feature = "tls"), allow(dead_code))]
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// The client sent text instead of a TLS record.
    Plaintext,
    /// The handshake began and failed.
    Failed(io::Error),
}

/// The ALPN name of HTTP/1.1.
pub(crate) const HTTP_1_1: &[u8] = b"http/1.1";

/// The response to plain HTTP on a TLS listener.
#[cfg(feature = "tls")]
const PLAIN_HTTP_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 46\r\n\r\n\
    this port expects HTTPS: use an https:// URL.\n";

/// How long a client of plain HTTP may take to read the response and close.
#[cfg(feature = "tls")]
const PLAIN_HTTP_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// How many bytes of a plain request are read and discarded.
#[cfg(feature = "tls")]
const PLAIN_HTTP_MAX_BYTES: u64 = 64 << 10;

/// Whether a first byte is text. The first byte of a TLS record is its content type, from 20 to 24.
#[cfg(feature = "tls")]
fn is_plaintext(first: u8) -> bool {
    matches!(first, b' '..=b'~' | b'\r' | b'\n')
}

/// Responds to plain HTTP, and reads what the client has sent: closing a connection with unread bytes resets it, and the
/// reset could discard the response.
#[cfg(feature = "tls")]
async fn refuse_plain_http(mut connection: TcpStream) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let refused = async {
        connection.write_all(PLAIN_HTTP_RESPONSE).await?;
        connection.shutdown().await?;
        tokio::io::copy(&mut connection.take(PLAIN_HTTP_MAX_BYTES), &mut tokio::io::sink()).await
    };
    // The connection ends in any case.
    let _ = tokio::time::timeout(PLAIN_HTTP_TIMEOUT, refused).await;
}

/// A stream that reports reads and writes.
#[derive(Debug)]
pub(crate) struct ActivityStream<S, A> {
    stream: S,
    activity: A,
    /// Whether a flush is pending.
    has_to_flush: bool,
}

/// Receives the reads and writes of a connection.
pub(crate) trait IoObserver: Unpin {
    /// Bytes were read.
    fn read(&self);

    /// Bytes were written.
    fn wrote(&self);

    /// A write could not make progress.
    fn write_blocked(&self) {}
}

impl<S, A: IoObserver> ActivityStream<S, A> {
    pub(crate) fn new(stream: S, activity: A) -> ActivityStream<S, A> {
        ActivityStream { stream, activity, has_to_flush: false }
    }

    fn note<T>(&self, polled: &Poll<io::Result<T>>) {
        match polled {
            Poll::Ready(_) => self.activity.wrote(),
            Poll::Pending => self.activity.write_blocked(),
        }
    }
}

impl<S: AsyncRead + Unpin, A: IoObserver> AsyncRead for ActivityStream<S, A> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.read();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin, A: IoObserver> AsyncWrite for ActivityStream<S, A> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.note(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // A flush alone does not count as activity, because on a plain socket it always succeeds; one that had to wait
    // does. TLS buffers bytes, and they are sent when it is flushed.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        match polled {
            Poll::Pending => {
                self.has_to_flush = true;
                self.activity.write_blocked();
            }
            Poll::Ready(Ok(())) if std::mem::take(&mut self.has_to_flush) => self.activity.wrote(),
            Poll::Ready(_) => {}
        }
        polled
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, DuplexStream, duplex};

    use super::*;
    use crate::listen::Activity;

    const TIMEOUT: Duration = Duration::from_secs(5);

    fn poll_flush(stream: &mut ActivityStream<BufWriter<DuplexStream>, Activity>) -> Poll<io::Result<()>> {
        Pin::new(stream).poll_flush(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn completed_flush_that_had_to_wait_counts_as_activity() {
        let (stream, mut peer) = duplex(8);
        let activity = Activity::new();
        let mut stream = ActivityStream::new(BufWriter::new(stream), activity.clone());
        stream.write_all(&[b'x'; 16]).await.unwrap();
        assert!(poll_flush(&mut stream).is_pending());
        tokio::time::advance(2 * TIMEOUT).await;
        assert!(activity.is_write_blocked_for(TIMEOUT));
        peer.read_exact(&mut [0; 8]).await.unwrap();
        assert!(poll_flush(&mut stream).is_ready());
        assert!(!activity.is_write_blocked_for(Duration::ZERO));
    }
}
