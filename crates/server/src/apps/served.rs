//! A file on its way to a browser: as what it is, as nothing else, and never as a page.

use std::io::Read;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tenure_apps::labels::Served;

use crate::Problem;
use crate::limits::FILE_PIECE_BYTES;

/// Not even an image that somebody made a page of gets to run, load or frame anything.
const SANDBOX: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";
/// What a hash names never changes. Only the reader's own browser keeps it: others may not read it.
const FOR_EVER: &str = "private, max-age=31536000, immutable";

/// The file, or 304 for whoever has it. The name is made of ids, not of anybody's words.
pub(super) fn serve(file: Served, name: &str, asked: &HeaderMap) -> Result<Response, Problem> {
    let Served { format, bytes, id, reader } = file;
    let etag = format!("\"{}\"", id.as_str());
    let mut response = if is_known(asked, &etag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let mut response = pieces(reader).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.media_type()));
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(bytes));
        let disposition = format!("inline; filename=\"{name}.{}\"", format.ending());
        headers.insert(header::CONTENT_DISPOSITION, text(&disposition)?);
        response
    };
    let headers = response.headers_mut();
    headers.insert(header::ETAG, text(&etag)?);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(FOR_EVER));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(SANDBOX));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    Ok(response)
}

/// The caller has this very file.
fn is_known(asked: &HeaderMap, etag: &str) -> bool {
    let lines = asked.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

fn text(value: &str) -> Result<HeaderValue, Problem> {
    HeaderValue::from_str(value).map_err(|error| {
        tracing::error!(%error, value, "a header cannot be written");
        Problem::internal()
    })
}

/// Reads as fast as it is taken, a piece at a time, away from the threads that answer everyone.
fn pieces(reader: Box<dyn Read + Send>) -> Body {
    let pieces = stream::unfold(Some(reader), |reader| async move {
        let mut reader = reader?;
        let read = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; FILE_PIECE_BYTES];
            let count = reader.read(&mut piece)?;
            piece.truncate(count);
            Ok((piece, reader))
        });
        match read.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            Ok((piece, _)) if piece.is_empty() => None,
            Ok((piece, reader)) => Some((Ok(piece), Some(reader))),
            Err(error) => {
                // The length was promised: the reader sees that it broke off.
                tracing::error!(%error, "a file cannot be read");
                Some((Err(error), None))
            }
        }
    });
    Body::from_stream(pieces)
}
