//! A body of an HTTP message that keeps something, such as a count of requests in flight, until it was sent or dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// A body that keeps something until it was sent or dropped.
#[derive(Debug)]
pub struct Guarded<B, G> {
    body: B,
    _guard: G,
}

impl<B, G> Guarded<B, G> {
    /// Keeps `guard` as long as the body lives.
    pub fn new(body: B, guard: G) -> Self {
        Self { body, _guard: guard }
    }
}

impl<B, G> HttpBody for Guarded<B, G>
where
    B: HttpBody<Data = Bytes> + Unpin,
    G: Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
