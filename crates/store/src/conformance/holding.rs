//! Somebody else in the database, who has nothing to do with a store and may keep it waiting.

use std::sync::mpsc::{Receiver, Sender, channel};

use tokio_postgres::{NoTls, SimpleQueryMessage};

type Rows = Vec<Vec<String>>;

/// Somebody else's transaction, which lasts until it is told to end; behind a pooler it has a session for so long.
#[derive(Debug)]
pub struct Holding(Sender<(String, Sender<Rows>)>);

impl Holding {
    /// Begins it.
    pub fn begin(url: &str) -> Self {
        let (ask, asked) = channel();
        let url = url.to_owned();
        // On a thread of its own: the caller may be on a runtime already.
        std::thread::spawn(move || serve(&url, &asked));
        let holding = Self(ask);
        holding.rows("BEGIN");
        holding
    }

    /// The rows that statements answer with, as text.
    pub fn rows(&self, sql: &str) -> Rows {
        let (back, answer) = channel();
        self.0.send((sql.to_owned(), back)).expect("it is there");
        answer.recv().unwrap_or_else(|_| panic!("{sql}: no answer"))
    }

    /// Commits it.
    pub fn end(self) {
        self.rows("COMMIT");
    }
}

fn serve(url: &str, asked: &Receiver<(String, Sender<Rows>)>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (client, connection) = runtime.block_on(tokio_postgres::connect(url, NoTls)).expect("connects");
    runtime.spawn(connection);
    for (sql, back) in asked {
        let answers = runtime.block_on(client.simple_query(&sql)).expect("answers");
        let rows = answers.into_iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|column| row.get(column).unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        });
        let _ = back.send(rows.collect());
    }
}
