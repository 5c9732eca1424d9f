//! The gateway's public test cards. Whoever holds one of them holds nothing.

/// What comes of a card.
#[derive(Clone, Copy, Debug)]
pub(super) struct Card {
    /// The bank asks for a password.
    pub(super) challenges: bool,
    /// What the bank says of its holder, if it does not ask.
    pub(super) authentication: &'static str,
    /// What a charge comes to.
    pub(super) iso: &'static str,
}

pub(super) fn card(digits: &str) -> Option<Card> {
    let (challenges, authentication, iso) = match digits {
        "4012000000020071" => (false, "Y", "00"),
        "4012000000020006" => (true, "Y", "00"),
        "4012000000020121" => (false, "N", "00"),
        "4666666666662222" => (false, "Y", "05"),
        "4111111111110000" => (true, "Y", "91"),
        "5100270000000072" => (false, "R", "00"),
        "5555666666662222" => (false, "U", "05"),
        _ => return None,
    };
    Some(Card { challenges, authentication, iso })
}
