//! What comes to a project's images: a form with a file, or JSON about a file that is kept elsewhere.

use std::fmt;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use futures_util::{Stream, StreamExt, stream};
use http_body_util::{BodyExt, Limited};
use multer::{Constraints, Error, Field, Multipart, SizeLimit};
use parking_lot::Mutex;
use serde::Deserialize;
use tenure_apps::labels::{FILE_BYTES_MAX, NAME_BYTES_MAX, NewImage};
use tenure_core::Text;
use utoipa::ToSchema;

use crate::body::Body;
use crate::idempotency::Key;
use crate::limits::{
    UPLOAD_BYTES_MAX, UPLOAD_PAUSE_MAX, UPLOAD_TIME_MAX, UPLOADS_MAX, UPLOADS_PER_PERSON_MAX,
};
use crate::params::no_query;
use crate::{App, Caller, Problem};

/// What came.
pub(super) enum Upload<'a> {
    /// About a file elsewhere.
    Metadata(Body<NewImage>),
    /// The file itself, and its slot, to be held as long as the bytes are.
    File { name: String, bytes: Bytes, key: Option<Key>, slot: Slot<'a> },
}

/// A form with an image.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ImageUpload)]
#[expect(dead_code, reason = "only the document is made of it")]
pub(super) struct UploadForm {
    /// PNG, JPEG or WebP, up to 20 MiB and 50 megapixels. What it is shows in its content.
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
    /// What people call it; the file's own name if it is left out.
    #[schema(min_length = 1, max_length = 200)]
    name: Option<String>,
}

/// Uploads that are being read: each is held in memory.
#[derive(Debug, Default)]
pub(crate) struct Uploading(Mutex<Vec<Text>>);

/// A place among them, until it is dropped.
pub(super) struct Slot<'a>(&'a Uploading, Text);

impl Uploading {
    /// A place for this person, if there is one.
    fn enter(&self, person: &Text) -> Option<Slot<'_>> {
        let mut people = self.0.lock();
        let own = people.iter().filter(|other| *other == person).count();
        if people.len() >= UPLOADS_MAX || own >= UPLOADS_PER_PERSON_MAX {
            return None;
        }
        people.push(person.clone());
        Some(Slot(self, person.clone()))
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut people = self.0.0.lock();
        if let Some(index) = people.iter().position(|person| *person == self.1) {
            people.swap_remove(index);
        }
    }
}

/// The sender paused for too long.
#[derive(Debug)]
struct Stalled;

impl fmt::Display for Stalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing came for too long")
    }
}

impl std::error::Error for Stalled {}

type Failed = Box<dyn std::error::Error + Send + Sync>;

/// The body's parts, until one of them is too long in coming.
fn parts_of(body: axum::body::Body) -> impl Stream<Item = Result<Bytes, Failed>> + Send {
    let body = Box::pin(Limited::new(body, UPLOAD_BYTES_MAX).into_data_stream());
    stream::unfold(body, async |mut body| {
        let part = match tokio::time::timeout(UPLOAD_PAUSE_MAX, body.next()).await {
            Ok(part) => part?,
            Err(_) => Err(Failed::from(Stalled)),
        };
        Some((part, body))
    })
}

/// Reads a request to the end, within the limits.
pub(super) async fn read<'a>(app: &'a App, caller: &Caller, request: Request) -> Result<Upload<'a>, Problem> {
    let Some(boundary) = boundary(request.headers()) else {
        return Ok(Upload::Metadata(Body::from_request(request, app).await?));
    };
    no_query(request.uri())?;
    // Turned away rather than queued: whoever waits would wait with a file in hand.
    let slot = app.uploading().enter(&caller.principal.id).ok_or_else(|| {
        let detail = "too many uploads at once; try again shortly";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "overloaded", detail).retry(1)
    })?;
    let (parts, body) = request.into_parts();
    let body = parts_of(body);
    let limits = SizeLimit::new()
        .whole_stream(UPLOAD_BYTES_MAX as u64)
        .for_field("file", FILE_BYTES_MAX as u64)
        .for_field("name", NAME_BYTES_MAX as u64);
    let form = Multipart::with_constraints(body, boundary, Constraints::new().size_limit(limits));
    let read = within(UPLOAD_TIME_MAX, form_of(form));
    let (name, bytes) = read.await?;
    let key = key_of(&parts.method, &parts.uri, &parts.headers, &name, &bytes)?;
    Ok(Upload::File { name, bytes, key, slot })
}

async fn within<T>(time: Duration, read: impl Future<Output = Result<T, Problem>>) -> Result<T, Problem> {
    let late = || Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body took too long");
    tokio::time::timeout(time, read).await.map_err(|_| late())?
}

/// The file and its name.
async fn form_of(mut form: Multipart<'_>) -> Result<(String, Bytes), Problem> {
    let (mut file, mut name, mut own_name) = (None, None, None);
    while let Some(field) = form.next_field().await.map_err(|error| broken(&error, "body"))? {
        match field.name() {
            Some("file") if file.is_none() => {
                own_name = field.file_name().map(last_part);
                file = Some(bytes_of(field, "file").await?);
            }
            Some("name") if name.is_none() => {
                let bytes = bytes_of(field, "name").await?;
                let text = String::from_utf8(bytes.into());
                name = Some(text.map_err(|_| Problem::invalid("name", "is not UTF-8"))?);
            }
            Some(known @ ("file" | "name")) => return Err(Problem::invalid(known, "stands twice")),
            // Not repeated as it came: it is anybody's words.
            Some(_) => return Err(Problem::invalid("body", "has a field besides `file` and `name`")),
            None => return Err(Problem::invalid("body", "has a field without a name")),
        }
    }
    let file = file.ok_or_else(|| Problem::invalid("file", "is missing"))?;
    let name = name.or(own_name).ok_or_else(|| Problem::invalid("name", "is missing"))?;
    Ok((name, file))
}

async fn bytes_of(field: Field<'_>, name: &str) -> Result<Bytes, Problem> {
    field.bytes().await.map_err(|error| broken(&error, name))
}

/// Browsers send a name, some a whole path of the person's own machine.
fn last_part(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or("");
    last.chars().filter(|letter| !letter.is_control()).collect()
}

fn broken(error: &Error, field: &str) -> Problem {
    let too_large = |what: &str, limit: u64| {
        let detail = format!("{what} has more than {limit} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", detail)
    };
    match error {
        Error::FieldSizeExceeded { limit, .. } if field == "name" => {
            Problem::invalid("name", format!("has more than {limit} bytes"))
        }
        Error::FieldSizeExceeded { limit, .. } => too_large("the file", *limit),
        Error::StreamSizeExceeded { limit } => too_large("the body", *limit),
        Error::StreamReadFailed(cause) if cause.is::<http_body_util::LengthLimitError>() => {
            too_large("the body", UPLOAD_BYTES_MAX as u64)
        }
        Error::StreamReadFailed(cause) if cause.is::<Stalled>() => {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "timeout", "nothing came for too long")
        }
        _ => Problem::new(StatusCode::BAD_REQUEST, "malformed", "the form cannot be read to its end"),
    }
}

/// The boundary, if it is a form.
fn boundary(headers: &HeaderMap) -> Option<String> {
    let content_type = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    multer::parse_boundary(content_type).ok()
}

/// The same file under the same name is the same request: each try has another boundary.
fn key_of(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    name: &str,
    bytes: &[u8],
) -> Result<Option<Key>, Problem> {
    if !headers.contains_key("idempotency-key") {
        return Ok(None);
    }
    let file = tenure_apps::files::FileId::of(bytes);
    Key::of(method, uri.path(), headers, format!("{}\n{name}", file.as_str()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_is_its_last_part() {
        let check = |name: &str, expected: &str| assert_eq!(last_part(name), expected);
        check("crossing.png", "crossing.png");
        check(r"C:\pictures\crossing.png", "crossing.png");
        check("../../etc/passwd", "passwd");
        check("a\r\nb.png", "ab.png");
        check("pictures/", "");
    }
}
