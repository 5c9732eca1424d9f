//! Every code that a refusal can carry: its status, what it means in general, and what to do about it.
//! The documents at `/docs/problems` and the examples in `/openapi.json` are made from this table.

/// One code.
#[derive(Clone, Copy, Debug)]
pub struct Code {
    /// The stable word.
    pub code: &'static str,
    /// The status code that it comes with.
    pub status: u16,
    /// What it means, in a few words.
    pub title: &'static str,
    /// What to do about it.
    pub advice: &'static str,
}

const fn code(status: u16, code: &'static str, title: &'static str, advice: &'static str) -> Code {
    Code { code, status, title, advice }
}

/// Every code, by status.
pub const CODES: &[Code] = &[
    code(400, "malformed", "The request cannot be read", "Send well-formed JSON, and UTF-8 in the path."),
    code(
        401,
        "unauthenticated",
        "Sign in first",
        "Send `Authorization: Bearer …` with a valid key or token.",
    ),
    code(403, "forbidden", "Not allowed", "Your role or your key's kinds do not cover this."),
    code(403, "not_holder", "The claim is another's", "`holder` says whose. Only the holder can do this."),
    code(
        403,
        "stale_token",
        "The token is not this claim's",
        "Somebody was granted the item since. Stop working under the old token.",
    ),
    code(404, "not_found", "There is no such thing", "`what` and `id` say which thing."),
    code(
        405,
        "method_not_allowed",
        "The method is not supported here",
        "`Allow` names the methods that are.",
    ),
    code(406, "not_acceptable", "The answer has no such form", "Ask for `application/json`."),
    code(408, "timeout", "The request took too long", "Send the body faster, or a smaller one."),
    code(
        409,
        "held",
        "Somebody else holds it",
        "`items` names each holder and until when. Try again after `Retry-After`, or wait with `wait_ms`.",
    ),
    code(409, "finished", "Its status is final", "`items` names the status. It can never be claimed again."),
    code(
        409,
        "not_claimable",
        "Its status cannot be claimed",
        "`items` names the status. Change the item's status first.",
    ),
    code(409, "limit", "A limit is reached", "`limit` names the kind's limit and `max` its value."),
    code(
        409,
        "conflict",
        "It has changed since",
        "`expected_version` is what you knew, `current_version` what is there. Read it and try again.",
    ),
    code(409, "wrong_phase", "The claim's phase does not allow it", "`phase` names the phase that it is in."),
    code(
        409,
        "wrong_status",
        "Its status does not allow it",
        "`item_status` says which status it has, `detail` what would be needed.",
    ),
    code(409, "not_held", "You do not hold it", "Nobody holds `item`. Claim it first, then try again."),
    code(
        409,
        "in_progress",
        "The first request with this key is still running",
        "Try again after `Retry-After`: you will get that request's answer.",
    ),
    code(
        410,
        "lost",
        "The claim has ended",
        "`reason` says why, `ended_at` when, `holder` who holds an item of it now. Stop the work and claim anew.",
    ),
    code(
        410,
        "resync",
        "These events are not there any more",
        "The number is outside of what is retained, or of another epoch. Read the items and go on from `last`.",
    ),
    code(412, "precondition_failed", "It has changed since", "Read the item, and send its new `ETag`."),
    code(
        413,
        "too_large",
        "The request is too large",
        "A body has at most 64 KiB, a batch 1 MiB, an image 20 MiB.",
    ),
    code(415, "unsupported_media_type", "The content type is not supported", "Send `application/json`."),
    code(422, "invalid", "The request is not valid", "`field` names what is wrong; `detail` says how."),
    code(
        422,
        "key_reused",
        "The idempotency key was used for another request",
        "Use a new key for each request; the same one only to repeat it.",
    ),
    code(426, "upgrade_required", "Only sockets are opened here", "Open it as a WebSocket, version 13."),
    code(
        428,
        "precondition_required",
        "Say which version you know",
        "The item exists: send `If-Match` with its `ETag`, or `version` in the body.",
    ),
    code(429, "rate_limited", "Too many requests", "Try again after `Retry-After`."),
    code(500, "internal", "Something went wrong on the server", "The server's log says what. Try again."),
    code(503, "overloaded", "Too many requests are waiting", "Try again after `Retry-After`."),
    code(503, "away", "The store cannot be reached", "Nothing happened. Try again after `Retry-After`."),
    code(
        503,
        "stopped",
        "The server is stopping",
        "The outcome is unknown: repeat the request with the same `Idempotency-Key`.",
    ),
    code(507, "no_room", "The disk is full", "Reads go on. Changes are refused until there is room."),
];

/// The row of a code.
pub(crate) fn code_of(word: &str) -> Option<&'static Code> {
    CODES.iter().find(|code| code.code == word)
}
