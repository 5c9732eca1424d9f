//! The headers of an answer, as each of the two ways out collects them: a map for hyper, a list for the short way.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;

/// Room for the headers that an answer usually has.
pub(crate) const ANSWER_FIELDS: usize = 12;

/// What headers can be put into.
pub(crate) trait Fields {
    /// Puts one, in the place of any of that name.
    fn put(&mut self, name: HeaderName, value: HeaderValue);

    /// Puts one, unless there is one of that name.
    fn put_default(&mut self, name: HeaderName, value: HeaderValue);
}

impl Fields for HeaderMap {
    fn put(&mut self, name: HeaderName, value: HeaderValue) {
        self.insert(name, value);
    }

    fn put_default(&mut self, name: HeaderName, value: HeaderValue) {
        self.entry(name).or_insert(value);
    }
}

/// A list in which no name stands twice.
pub(crate) type List = Vec<(HeaderName, HeaderValue)>;

impl Fields for List {
    fn put(&mut self, name: HeaderName, value: HeaderValue) {
        match self.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.push((name, value)),
        }
    }

    fn put_default(&mut self, name: HeaderName, value: HeaderValue) {
        if !self.iter().any(|(known, _)| *known == name) {
            self.push((name, value));
        }
    }
}

/// An answer for hyper.
pub(crate) fn response(status: StatusCode, headers: HeaderMap, body: String) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

#[cfg(test)]
mod tests {
    use axum::http::header::{CACHE_CONTROL, ETAG};

    use super::*;

    #[test]
    fn a_list_and_a_map_take_the_same() {
        fn fill(fields: &mut impl Fields) {
            fields.put(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            fields.put(ETAG, HeaderValue::from_static("1"));
            fields.put(ETAG, HeaderValue::from_static("2"));
            fields.put_default(CACHE_CONTROL, HeaderValue::from_static("public"));
        }
        let (mut list, mut map) = (List::new(), HeaderMap::new());
        fill(&mut list);
        fill(&mut map);
        assert_eq!(list.len(), map.len());
        assert_eq!(list.into_iter().collect::<HeaderMap>(), map);
        assert_eq!((&map[CACHE_CONTROL], &map[ETAG]), (&"no-store".parse().unwrap(), &"2".parse().unwrap()));
    }
}
