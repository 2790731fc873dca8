use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::Activity;

/// A stream that notes when bytes come and go.
#[derive(Debug)]
pub(crate) struct ActivityStream<S> {
    stream: S,
    activity: Activity,
    /// Whether a flush could not be completed.
    has_to_flush: bool,
}

impl<S> ActivityStream<S> {
    pub(crate) fn new(stream: S, activity: Activity) -> ActivityStream<S> {
        ActivityStream { stream, activity, has_to_flush: false }
    }

    fn note<T>(&self, polled: &Poll<io::Result<T>>) {
        match polled {
            Poll::Ready(_) => self.activity.wrote(),
            Poll::Pending => self.activity.could_not_write(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
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

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
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

    const SO_LONG: Duration = Duration::from_secs(5);

    fn poll_flush(stream: &mut ActivityStream<BufWriter<DuplexStream>>) -> Poll<io::Result<()>> {
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
