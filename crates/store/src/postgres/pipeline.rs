//! Several statements sent at once, answered in their order.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::hush::Hush;
use super::session::{Prepared, Session};

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Vec<Row>, Error>> + Send + 'a>>;

/// Values of one column, for `unnest`.
pub(super) type Column<'a> = (Box<dyn ToSql + Sync + Send + 'a>, Type);

pub(super) fn texts<'a>(values: impl Iterator<Item = &'a str>) -> Column<'a> {
    (Box::new(values.collect::<Vec<_>>()), Type::TEXT_ARRAY)
}

pub(super) fn numbers(values: impl Iterator<Item = i64>) -> Column<'static> {
    (Box::new(values.collect::<Vec<_>>()), Type::INT8_ARRAY)
}

pub(super) fn bodies(values: impl Iterator<Item = Vec<u8>>) -> Column<'static> {
    (Box::new(values.collect::<Vec<_>>()), Type::BYTEA_ARRAY)
}

pub(super) fn bytes<'a>(values: impl Iterator<Item = &'a [u8]>) -> Column<'a> {
    (Box::new(values.collect::<Vec<_>>()), Type::BYTEA_ARRAY)
}

/// A row of statements. Each is sent when it is first polled, which happens in order; nothing is sent after
/// one that could not be.
pub(super) struct Pipeline<'a> {
    client: &'a Client,
    prepared: Option<&'a Prepared>,
    /// All of it is one explicit transaction's.
    hush: Option<&'a Hush>,
    waiting: Vec<Answer<'a>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client, prepared: None, hush: None, waiting: Vec::new() }
    }

    /// The same, within a transaction that it begins or that is open; what is prepared there is not sent again.
    pub(super) fn on(session: &'a Session) -> Self {
        Self { prepared: session.prepared(), hush: Some(session.hush()), ..Self::new(session) }
    }

    /// Statements without parameters or rows.
    pub(super) fn plain(&mut self, sql: &'a str) {
        let client = self.client;
        // A message that is passed over after a failure, and then its answer would be missed.
        self.hush = None;
        self.waiting.push(Box::pin(async move { client.batch_execute(sql).await.map(|()| Vec::new()) }));
    }

    /// A statement whose parameters' types are named, so that it works without being prepared, too.
    pub(super) fn typed<const N: usize>(
        &mut self,
        sql: &'a str,
        parameters: [(&'a (dyn ToSql + Sync), Type); N],
    ) {
        let (client, statement) = (self.client, self.prepared.and_then(|prepared| prepared.get(sql)));
        self.waiting.push(Box::pin(async move {
            match statement {
                Some(statement) => client.query(statement, &parameters.map(|(value, _)| value)).await,
                None => client.query_typed(sql, &parameters).await,
            }
        }));
    }

    /// The same, with any number of parameters.
    pub(super) fn listed(&mut self, sql: &'a str, parameters: &'a [(&'a (dyn ToSql + Sync), Type)]) {
        let client = self.client;
        self.waiting.push(Box::pin(async move { client.query_typed(sql, parameters).await }));
    }

    /// The same, with columns that it owns.
    pub(super) fn columns<const N: usize>(&mut self, sql: &'a str, columns: [Column<'a>; N]) {
        let (client, statement) = (self.client, self.prepared.and_then(|prepared| prepared.get(sql)));
        self.waiting.push(Box::pin(async move {
            if let Some(statement) = statement {
                let values = columns.each_ref().map(|(values, _)| &**values as &(dyn ToSql + Sync));
                return client.query(statement, &values).await;
            }
            let parameters: Vec<(&(dyn ToSql + Sync), Type)> = columns
                .iter()
                .map(|(values, kind)| (&**values as &(dyn ToSql + Sync), kind.clone()))
                .collect();
            client.query_typed(sql, &parameters).await
        }));
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The rows of each. After the first failure the answers behind it tell nothing.
    pub(super) async fn run(self) -> Result<Vec<Vec<Row>>, Error> {
        let _hushing = self.hush.map(|hush| hush.all_but_last(self.waiting.len()));
        in_order(self.waiting).await
    }
}

/// Waits for all of these, or for the first of them that fails: what failed after it failed because of it, and
/// its own words say why. Answers come in order, but may come while others are being looked at.
async fn in_order<T: Default, E>(
    waiting: Vec<impl Future<Output = Result<T, E>> + Unpin>,
) -> Result<Vec<T>, E> {
    let mut waiting: Vec<_> = waiting.into_iter().map(Some).collect();
    let mut answers: Vec<T> = Vec::new();
    answers.resize_with(waiting.len(), T::default);
    let mut failed: Option<E> = None;
    poll_fn(|context| {
        loop {
            let (mut done, mut again) = (true, None);
            for (index, slot) in waiting.iter_mut().enumerate() {
                let Some(answer) = slot else { continue };
                match Pin::new(answer).poll(context) {
                    Poll::Pending => done = false,
                    Poll::Ready(Ok(rows)) => {
                        answers[index] = rows;
                        *slot = None;
                    }
                    Poll::Ready(Err(error)) => {
                        failed = Some(error);
                        again = Some(index);
                        break;
                    }
                }
            }
            // Nothing behind a failure is looked at any more, and all that stands before it once more.
            match again {
                Some(index) => waiting.truncate(index),
                None if !done => return Poll::Pending,
                None => return Poll::Ready(failed.take().map_or(Ok(()), Err)),
            }
        }
    })
    .await?;
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers at this poll, the first being 1.
    fn at(
        mut polls: u32,
        answer: Result<u8, &'static str>,
    ) -> impl Future<Output = Result<u8, &'static str>> {
        poll_fn(move |context| {
            polls -= 1;
            context.waker().wake_by_ref();
            if polls == 0 { Poll::Ready(answer) } else { Poll::Pending }
        })
    }

    #[test]
    fn e09_of_several_failures_the_first_is_told_however_late_it_is_seen() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let run = |polls: [(u32, Result<u8, &'static str>); 4]| {
            runtime.block_on(in_order(polls.into_iter().map(|(polls, answer)| at(polls, answer)).collect()))
        };
        assert_eq!(run([(1, Ok(1)), (3, Ok(2)), (2, Ok(3)), (1, Ok(4))]), Ok(vec![1, 2, 3, 4]));
        assert_eq!(run([(1, Ok(1)), (2, Err("why")), (1, Err("so")), (1, Err("so"))]), Err("why"));
        assert_eq!(run([(3, Err("why")), (5, Ok(1)), (2, Err("so")), (1, Ok(1))]), Err("why"));
        assert_eq!(run([(2, Ok(1)), (1, Err("why")), (9, Err("so")), (1, Ok(1))]), Err("why"));
    }
}
