//! The fake gateway's pages.

use tenure_apps::payments::Money;

use crate::gateway::form::escape;
use crate::gateway::wire::{Answer, Risk, ThreeDSecure};

const HEAD: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Fake gateway</title>\
    <meta name=\"viewport\" content=\"width=device-width\">";

/// What the merchant shows: it leads to the page at once, and by a button where scripts are off.
pub(super) fn redirect(url: &str) -> String {
    let url = escape(url);
    format!(
        "{HEAD}<body><form id=\"go\" method=\"post\" action=\"{url}\"><button>Continue to the card page</button></form>\
         <script>document.getElementById(\"go\").submit()</script></body></html>"
    )
}

/// Where the card is given.
pub(super) fn card(token: &str, amount: Money) -> String {
    let (token, amount) = (escape(token), escape(&amount.to_string()));
    format!(
        "{HEAD}<body><h1>Pay {amount}</h1><p>This gateway is a fake: no card is charged. Give a test card, such as \
         4012 0000 0002 0071 (approved) or 4666 6666 6666 2222 (declined).</p>\
         <form method=\"post\" action=\"/hosted/{token}/card\">\
         <label>Card number <input name=\"CardNumber\" inputmode=\"numeric\" autocomplete=\"off\" required></label> \
         <label>Expires <input name=\"CardExpiration\" placeholder=\"YYMM\" autocomplete=\"off\"></label> \
         <label>CVV <input name=\"CardCvv\" autocomplete=\"off\"></label> <button>Pay</button></form></body></html>"
    )
}

/// Only test cards are known.
pub(super) fn unknown_card(token: &str) -> String {
    let token = escape(token);
    format!(
        "{HEAD}<body><p>This is none of the test cards.</p>\
         <form method=\"post\" action=\"/hosted/{token}\"><button>Try another</button></form></body></html>"
    )
}

/// The bank asks.
pub(super) fn challenge(token: &str) -> String {
    let token = escape(token);
    format!(
        "{HEAD}<body><h1>Your bank asks</h1><p>The password of the test cards is 3ds2.</p>\
         <form method=\"post\" action=\"/hosted/{token}/challenge\">\
         <label>Password <input name=\"Password\" autocomplete=\"off\" required></label> <button>Send</button>\
         </form></body></html>"
    )
}

/// What the browser brings back to the merchant, as JSON.
pub(super) fn response(token: &str, authentication: &str, is_forged: bool) -> String {
    let secure = ThreeDSecure { authentication_status: Some(authentication.to_owned()) };
    let answer = Answer {
        approved: Some(is_forged),
        iso_response_code: Some("3D0".to_owned()),
        spi_token: Some(token.to_owned()),
        risk_management: Some(Risk { three_d_secure: Some(secure) }),
        ..Answer::default()
    };
    serde_json::to_string(&answer).unwrap_or_default()
}

/// Takes the browser back.
pub(super) fn back(url: &str, response: &str) -> String {
    let (url, response) = (escape(url), escape(response));
    format!(
        "{HEAD}<body><form id=\"go\" method=\"post\" action=\"{url}\">\
         <input type=\"hidden\" name=\"Response\" value=\"{response}\"><button>Back to the shop</button></form>\
         <script>document.getElementById(\"go\").submit()</script></body></html>"
    )
}
