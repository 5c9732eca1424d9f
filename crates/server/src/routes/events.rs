//! A collection's events, a page at a time. The live stream is another form of the same route.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tenure_core::CollectionKey;
use tenure_engine::{EventPage, Reader, StoreError};
use utoipa::{IntoParams, ToSchema};

use crate::command::Rendered;
use crate::limits::{PAGE_BYTES_MAX, PAGE_READ_ROWS};
use crate::params::{At, Query, page_size};
use crate::problem::from_store;
use crate::stream::{Cursor, sse};
use crate::view::EventView;
use crate::{App, Caller, Problem, schema};

/// From where.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventsQuery {
    /// Only after this number; 0 from the beginning.
    #[param(value_type = schema::Number, required = false)]
    since: Option<u64>,
    /// The epoch in which that number was seen: of another epoch it means nothing.
    #[param(value_type = schema::Number, required = false)]
    epoch: Option<u64>,
    /// At most so many.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// A page of events, oldest first, without gaps.
#[derive(Serialize, ToSchema)]
#[schema(as = Events)]
pub(crate) struct EventsView<'a> {
    events: Vec<EventView<'a>>,
    /// The number of the page's first event; absent when it has none.
    #[schema(value_type = schema::Number, required = false)]
    #[serde(skip_serializing_if = "Option::is_none")]
    first: Option<u64>,
    /// The number to go on from, as `since`.
    #[schema(value_type = schema::Number)]
    last: u64,
    /// The number of the collection's newest event.
    #[schema(value_type = schema::Number)]
    newest: u64,
    /// The epoch of these numbers.
    #[schema(value_type = schema::Number)]
    epoch: u64,
}

/// Read events
///
/// With `Accept: text/event-stream` the same events come as a live stream: `id: <epoch>-<seq>`,
/// `event: <type>`, `data: {…}`. Without `since` and `Last-Event-ID` it begins with `event: snapshot`. Where
/// the number means nothing any more it says `event: resync`, with a `reason` and the `epoch` and `seq` from
/// which it goes on, and a snapshot follows. A comment every 15 seconds shows that it is alive. It ends when the server
/// stops, to be resumed, and when the caller's key, token or session is over. A stream may begin before its collection is
/// there: the snapshot is then empty, of number 0.
#[utoipa::path(get, path = "/v1/collections/{kind}/{name}/events", tag = "events",
    params(At, EventsQuery,
        ("Last-Event-ID" = Option<String>, Header, example = json!("1-2"),
            description = "The `id` of the last event that was seen, for a live stream. It wins over `since`.")),
    responses((status = 200, description = "A page, or a live stream.", content(
        (EventsView<'static> = "application/json"),
        (String = "text/event-stream", example = json!("id: 1-2\nevent: claim_granted\ndata: {\"seq\":2}\n\n")),
    ))))]
pub(crate) async fn list_events(
    State(app): State<App>,
    caller: Caller,
    At(key): At,
    Query(query): Query<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let limit = page_size(query.limit)?;
    // As a socket: who watches what somebody will claim hears of the first claim.
    if wants_stream(&headers) {
        if query.limit.is_some() {
            return Err(Problem::invalid("limit", "a live stream has none"));
        }
        let from = sse::cursor_of(&headers, Cursor::of(query.since, query.epoch)?)?;
        return sse::respond(&app, &caller, &key, from).await;
    }
    let found = app.reader().collection(&key).map_err(|error| from_store(&error))?;
    let newest = found.ok_or_else(|| Problem::not_found("collection", &key))?.seq;
    let epoch = app.reader().epoch();
    let since = query.since.unwrap_or(0);
    if query.epoch.is_some_and(|known| known != epoch) {
        return Err(resync(epoch, newest).with("first", Option::<u64>::None));
    }
    let place = key.clone();
    match app.read(move |reader| page_of(reader, &place, since, limit)).await? {
        EventPage::Resync { first, last } => Err(resync(epoch, last).with("first", first)),
        EventPage::Events(page) => {
            let number = |sealed: &std::sync::Arc<tenure_core::Sealed>| sealed.event.seq;
            let last = page.last().map_or(since, number);
            let view = EventsView {
                first: page.first().map(number),
                last,
                newest: newest.max(last),
                epoch,
                events: page.iter().map(|sealed| EventView { collection: &key, sealed }).collect(),
            };
            Ok(Rendered::json(&view)?.into_response())
        }
    }
}

/// Events up to a page's end, in number or in bytes.
fn page_of(
    reader: &dyn Reader,
    key: &CollectionKey,
    since: u64,
    limit: usize,
) -> Result<EventPage, StoreError> {
    let (mut page, mut bytes, mut last) = (Vec::new(), 0, since);
    loop {
        let rows = (limit - page.len()).min(PAGE_READ_ROWS);
        let events = match reader.events(key, last, rows)? {
            EventPage::Events(events) => events,
            // What was read before is as good as it was.
            EventPage::Resync { .. } if !page.is_empty() => return Ok(EventPage::Events(page)),
            resync @ EventPage::Resync { .. } => return Ok(resync),
        };
        let is_last = events.len() < rows;
        for sealed in events {
            (bytes, last) = (bytes + sealed.bytes.len(), sealed.event.seq);
            page.push(sealed);
            if page.len() == limit || bytes >= PAGE_BYTES_MAX {
                return Ok(EventPage::Events(page));
            }
        }
        if is_last {
            return Ok(EventPage::Events(page));
        }
    }
}

/// The number means nothing here any more: start from the rows.
pub(crate) fn resync(epoch: u64, last: u64) -> Problem {
    let detail = "these events are not retained, or the number is of another epoch; start anew";
    Problem::new(StatusCode::GONE, "resync", detail).with("epoch", epoch).with("last", last)
}

/// The events are to come as they happen.
pub(crate) fn wants_stream(headers: &HeaderMap) -> bool {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accept.flat_map(|value| value.split(','));
    types.any(|range| range.split(';').next().unwrap_or("").trim() == "text/event-stream")
}
