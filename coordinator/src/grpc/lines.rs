//! Answers of several messages.

use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Response, Status};

/// An answer of several messages.
pub(super) type Streamed<T> = Result<Response<BoxStream<'static, Result<T, Status>>>, Status>;

/// What an operation answers with several messages.
pub(super) trait Lines<T> {
    /// The messages, one by one.
    fn lines(self) -> BoxStream<'static, T>;
}

impl<T: Send + 'static> Lines<T> for Vec<T> {
    fn lines(self) -> BoxStream<'static, T> {
        stream::iter(self).boxed()
    }
}

impl<T: Send + 'static> Lines<T> for mpsc::Receiver<T> {
    fn lines(self) -> BoxStream<'static, T> {
        ReceiverStream::new(self).boxed()
    }
}

/// A handful at a time, so that many are never held at once.
impl<T: Send + 'static> Lines<T> for BoxStream<'static, Vec<T>> {
    fn lines(self) -> BoxStream<'static, T> {
        self.flat_map(stream::iter).boxed()
    }
}
