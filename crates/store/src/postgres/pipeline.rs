//! Several statements sent at once, answered in their order.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

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
    waiting: Vec<Answer<'a>>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(client: &'a Client) -> Self {
        Self { client, prepared: None, waiting: Vec::new() }
    }

    /// The same; what is prepared there is not sent again.
    pub(super) fn on(session: &'a Session) -> Self {
        Self { prepared: session.prepared(), ..Self::new(session) }
    }

    /// Statements without parameters or rows.
    pub(super) fn plain(&mut self, sql: &'a str) {
        let client = self.client;
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
        let mut waiting: Vec<Option<Answer<'a>>> = self.waiting.into_iter().map(Some).collect();
        let mut answers: Vec<Vec<Row>> = Vec::new();
        answers.resize_with(waiting.len(), Vec::new);
        poll_fn(|context| {
            let mut done = true;
            for (index, slot) in waiting.iter_mut().enumerate() {
                let Some(answer) = slot else { continue };
                match answer.as_mut().poll(context) {
                    Poll::Pending => done = false,
                    Poll::Ready(Ok(rows)) => {
                        answers[index] = rows;
                        *slot = None;
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                }
            }
            if done { Poll::Ready(Ok(())) } else { Poll::Pending }
        })
        .await?;
        Ok(answers)
    }
}
