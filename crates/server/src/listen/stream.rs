use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// How connections of a listener are encrypted, if they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encryption {
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<super::tls::Tls>,
    /// The protocols that are offered within TLS. None: nothing is said of them.
    #[cfg_attr(not(feature = "tls"), allow(dead_code))]
    pub(crate) protocols: &'static [&'static [u8]],
}

/// A connection, encrypted or not.
#[cfg(feature = "tls")]
pub(crate) type Stream = tokio_util::either::Either<TcpStream, Box<tokio_rustls::server::TlsStream<TcpStream>>>;
#[cfg(not(feature = "tls"))]
pub(crate) type Stream = TcpStream;

impl Encryption {
    /// The same, on a listener that speaks these protocols.
    pub(crate) fn speaking(mut self, protocols: &'static [&'static [u8]]) -> Encryption {
        self.protocols = protocols;
        self
    }

    /// Whether there is a handshake.
    pub(super) fn takes_time(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    /// Makes a stream of a connection that was accepted.
    #[cfg(feature = "tls")]
    pub(super) async fn begin(&self, connection: TcpStream) -> io::Result<Stream> {
        Ok(match &self.tls {
            Some(tls) => Stream::Right(Box::new(tls.accept(connection, self.protocols).await?)),
            None => Stream::Left(connection),
        })
    }

    #[cfg(not(feature = "tls"))]
    pub(super) async fn begin(&self, connection: TcpStream) -> io::Result<Stream> {
        Ok(connection)
    }
}

/// A stream that notes when bytes come and go.
#[derive(Debug)]
pub(crate) struct ActivityStream<S, A> {
    stream: S,
    activity: A,
    /// Whether a flush could not be completed.
    has_to_flush: bool,
}

/// What is told of the bytes of a connection.
pub(crate) trait NotesBytes: Unpin {
    /// Bytes came.
    fn read(&self);

    /// Bytes went.
    fn wrote(&self);

    /// Bytes could not go.
    fn could_not_write(&self) {}
}

impl<S, A: NotesBytes> ActivityStream<S, A> {
    pub(crate) fn new(stream: S, activity: A) -> ActivityStream<S, A> {
        ActivityStream { stream, activity, has_to_flush: false }
    }

    fn note<T>(&self, polled: &Poll<io::Result<T>>) {
        match polled {
            Poll::Ready(_) => self.activity.wrote(),
            Poll::Pending => self.activity.could_not_write(),
        }
    }
}

impl<S: AsyncRead + Unpin, A: NotesBytes> AsyncRead for ActivityStream<S, A> {
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

impl<S: AsyncWrite + Unpin, A: NotesBytes> AsyncWrite for ActivityStream<S, A> {
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

    // A flush is no sign of life, because on a plain socket it is always done; but one that had to wait is. TLS takes
    // bytes before they can go, and they have gone when it is flushed.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        match polled {
            Poll::Pending => {
                self.has_to_flush = true;
                self.activity.could_not_write();
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

    const SO_LONG: Duration = Duration::from_secs(5);

    fn poll_flush(stream: &mut ActivityStream<BufWriter<DuplexStream>, Activity>) -> Poll<io::Result<()>> {
        Pin::new(stream).poll_flush(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_flush_that_had_to_wait_and_is_done_is_a_sign_of_life() {
        let (stream, mut other_end) = duplex(8);
        let activity = Activity::new();
        let mut stream = ActivityStream::new(BufWriter::new(stream), activity.clone());
        stream.write_all(&[b'x'; 16]).await.unwrap();
        assert!(poll_flush(&mut stream).is_pending());
        tokio::time::advance(2 * SO_LONG).await;
        assert!(activity.is_stuck_for(SO_LONG));
        other_end.read_exact(&mut [0; 8]).await.unwrap();
        assert!(poll_flush(&mut stream).is_ready());
        assert!(!activity.is_stuck_for(Duration::ZERO));
    }
}
