//! The first words of a connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// What everybody says who speaks HTTP/2.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose other end has said that it speaks HTTP/2. Whoever says
/// nothing holds up nobody, and whoever says something else learns nothing.
pub(super) struct Greeted<I> {
    io: I,
    told: usize,
}

/// Waits for the preface; `None` if it is another one, or none.
pub(super) async fn greeted<I: AsyncRead + Unpin>(mut io: I) -> Option<Greeted<I>> {
    let mut said = [0; PREFACE.len()];
    let mut count = 0;
    while count < said.len() {
        let more = io.read(&mut said[count..]).await.ok()?;
        count += more;
        // Whoever means something else may be waiting for an answer to it.
        if more == 0 || !PREFACE.starts_with(&said[..count]) {
            return None;
        }
    }
    Some(Greeted { io, told: 0 })
}

impl<I: AsyncRead + Unpin> AsyncRead for Greeted<I> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let rest = &PREFACE[self.told..];
        if rest.is_empty() {
            return Pin::new(&mut self.io).poll_read(context, into);
        }
        let count = rest.len().min(into.remaining());
        into.put_slice(&rest[..count]);
        self.told += count;
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Greeted<I> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, from)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, from)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}
