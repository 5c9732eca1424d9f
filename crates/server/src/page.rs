//! A page of a list whose rows are looked at one by one: filtered by the caller's kinds and judged at the
//! time of the answer, which no store can do.

use tenure_engine::{Page, Reader, StoreError};

use crate::limits::{PAGE_BYTES_MAX, PAGE_READ_ROWS, SCAN_MAX};
use crate::{App, Problem};

/// What a page was asked for, and how far it got.
pub(crate) struct Scan<C> {
    /// Rows to keep at most.
    pub(crate) limit: usize,
    /// Begin after this one.
    pub(crate) after: Option<C>,
}

impl<C: Clone + Send + 'static> Scan<C> {
    /// Reads until the page is full, in rows or in bytes, the list ends, or enough has been looked at. Gives the
    /// rows that were kept, and where the next page begins. `weigh` says about how many bytes a row takes.
    pub(crate) async fn run<R, T>(
        self,
        app: &App,
        read: impl Fn(&dyn Reader, Option<&C>, usize) -> Result<Page<R>, StoreError> + Clone + Send + 'static,
        cursor: impl Fn(&R) -> C,
        weigh: impl Fn(&T) -> usize,
        mut keep: impl FnMut(R) -> Result<Option<T>, Problem>,
    ) -> Result<(Vec<T>, Option<C>), Problem>
    where
        R: Send + 'static,
    {
        let Self { limit, mut after } = self;
        let mut kept = Vec::new();
        let (mut scanned, mut bytes) = (0, 0);
        loop {
            let (read, from) = (read.clone(), after.clone());
            let rows = limit.min(PAGE_READ_ROWS);
            let page = app.read(move |reader| read(reader, from.as_ref(), rows)).await?;
            let count = page.rows.len();
            scanned += count;
            for (index, row) in page.rows.into_iter().enumerate() {
                let place = cursor(&row);
                if let Some(row) = keep(row)? {
                    bytes += weigh(&row);
                    kept.push(row);
                }
                if kept.len() == limit || bytes >= PAGE_BYTES_MAX {
                    let more = page.more || index + 1 < count;
                    return Ok((kept, more.then_some(place)));
                }
                after = Some(place);
            }
            if !page.more || count == 0 {
                return Ok((kept, None));
            }
            if scanned >= SCAN_MAX {
                return Ok((kept, after));
            }
        }
    }
}
