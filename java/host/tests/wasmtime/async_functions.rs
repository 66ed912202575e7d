//! Counts how often a future waits.

use std::pin::Pin;
use std::task::{Context, Poll};

pub struct CountPending<F> {
    future: F,
    waited: usize,
}

impl<F> CountPending<F> {
    pub const fn new(future: F) -> Self {
        Self { future, waited: 0 }
    }
}

impl<F: Future + Unpin> Future for CountPending<F> {
    type Output = (F::Output, usize);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.future).poll(context) {
            Poll::Ready(output) => Poll::Ready((output, self.waited)),
            Poll::Pending => {
                self.waited += 1;
                Poll::Pending
            }
        }
    }
}
