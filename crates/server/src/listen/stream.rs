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
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Tls(Box<tokio_rustls::server::TlsStream<TcpStream>>),
}

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
    pub(super) async fn begin(&self, connection: TcpStream) -> io::Result<Stream> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Ok(Stream::Tls(Box::new(tls.accept(connection, self.protocols).await?)));
        }
        Ok(Stream::Plain(connection))
    }
}

/// Does the same with whichever stream it is.
macro_rules! with_stream {
    ($self:expr, $stream:ident => $then:expr) => {
        match $self.get_mut() {
            Stream::Plain($stream) => $then,
            #[cfg(feature = "tls")]
            Stream::Tls($stream) => $then,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        with_stream!(self, stream => Pin::new(stream).poll_read(context, buffer))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        with_stream!(self, stream => Pin::new(stream).poll_write(context, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        with_stream!(self, stream => Pin::new(stream).poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(stream) => stream.is_write_vectored(),
            #[cfg(feature = "tls")]
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_stream!(self, stream => Pin::new(stream).poll_flush(context))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        with_stream!(self, stream => Pin::new(stream).poll_shutdown(context))
    }
}
