//! A text in every form in which it could stand somewhere.

use std::fmt::Write;

/// The forms of a text, each with its name: as it is, percent-encoded, as JSON
/// escapes it, in lower case, in base64 wherever in a longer text it stands, in
/// hexadecimal digits, and either half of it.
pub(crate) fn forms(text: &str) -> Vec<(String, Vec<u8>)> {
    let mut forms = vec![
        ("plain".to_owned(), text.as_bytes().to_vec()),
        (
            "percent-encoded".to_owned(),
            percent(text, true).into_bytes(),
        ),
        (
            "percent-encoded in lower case".to_owned(),
            percent(text, false).into_bytes(),
        ),
        (
            "JSON with escaped slashes".to_owned(),
            text.replace('/', "\\/").into_bytes(),
        ),
        (
            "JSON in code points".to_owned(),
            code_points(text).into_bytes(),
        ),
        (
            "lower case".to_owned(),
            text.to_ascii_lowercase().into_bytes(),
        ),
        ("hexadecimal".to_owned(), hex(text.as_bytes()).into_bytes()),
    ];
    for before in 0..3 {
        forms.push((
            format!("base64 behind {before}"),
            base64_inside(text, before, *b"+/"),
        ));
        forms.push((
            format!("base64url behind {before}"),
            base64_inside(text, before, *b"-_"),
        ));
    }
    // A mask that covers only a part is none.
    let middle = text.len() / 2;
    for (name, part) in [
        ("its first half", &text[..middle]),
        ("its second half", &text[middle..]),
    ] {
        forms.push((name.to_owned(), part.as_bytes().to_vec()));
    }
    // The longest first: it says best what was found.
    forms.sort_by(|(_, a), (_, b)| (b.len(), b).cmp(&(a.len(), a)));
    forms.dedup_by(|(_, a), (_, b)| a == b);
    forms
}

/// Whether these bytes are somewhere in those.
pub(crate) fn holds(haystack: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(haystack, needle).is_some()
}

fn percent(text: &str, upper: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else if upper {
            write!(encoded, "%{byte:02X}").unwrap();
        } else {
            write!(encoded, "%{byte:02x}").unwrap();
        }
    }
    encoded
}

fn code_points(text: &str) -> String {
    let escaped = |c: char| format!("\\u{:04x}", u32::from(c));
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_string()
            } else {
                escaped(c)
            }
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// What of the base64 of a longer text is sure, when this one begins behind so
/// many bytes of a group of three: the whole groups in it.
fn base64_inside(text: &str, before: usize, last: [u8; 2]) -> Vec<u8> {
    const PLAIN: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let digit = |value: u8| match value {
        62 => last[0],
        63 => last[1],
        value => PLAIN[usize::from(value)],
    };
    let skipped = (3 - before) % 3;
    text.as_bytes()[skipped..]
        .chunks_exact(3)
        .flat_map(|group| {
            let [a, b, c] = [group[0], group[1], group[2]];
            [
                a >> 2,
                (a << 4 | b >> 4) & 63,
                (b << 2 | c >> 6) & 63,
                c & 63,
            ]
        })
        .map(digit)
        .collect()
}

#[test]
fn every_form_is_found_and_nothing_else() {
    let secret = "wJalr07+UtnFEMI/K7MDENG/bPxRfiCY=EXAMPLEKEY";
    let found = |haystack: &str| {
        forms(secret)
            .iter()
            .any(|(_, form)| holds(haystack.as_bytes(), form))
    };
    for haystack in [
        "key=wJalr07+UtnFEMI/K7MDENG/bPxRfiCY=EXAMPLEKEY&x",
        "wJalr07%2BUtnFEMI%2FK7MDENG%2FbPxRfiCY%3DEXAMPLEKEY",
        r"wJalr07+UtnFEMI\/K7MDENG\/bPxRfiCY=EXAMPLEKEY",
        // `Bearer` and a space, and the secret.
        "QmVhcmVyIHdKYWxyMDcrVXRuRkVNSS9LN01ERU5HL2JQeFJmaUNZPUVYQU1QTEVLRVk=",
        "the rest is ENG/bPxRfiCY=EXAMPLEKEY",
    ] {
        assert!(found(haystack), "{haystack}");
    }
    assert!(!found("wJalr08+UtnFEMI and EXAMPLEKEY"));
}
