//! The cases that are not played here, each with its reason.

const GATEWAY: &str = "a browser and a gateway have a part in it";
const STORAGE: &str = "it is about storage behind a gateway";
const NDJSON: &str = "it is no event stream";
const CHAT_CONTINUATION: &str = "continuing a chat answer comes later";
const DECODER: &str = "it needs the dialect without a vocabulary, which comes later";

/// Cases of `fixtures/failures`, in order.
pub(crate) const LEFT_OUT: &[(&str, &str)] = &[
    ("AB-01", GATEWAY),
    ("AB-03", GATEWAY),
    ("AB-04", GATEWAY),
    ("DC-04", CHAT_CONTINUATION),
    ("DC-07", CHAT_CONTINUATION),
    ("IB-18", NDJSON),
    ("ID-01", GATEWAY),
    ("ID-04", GATEWAY),
    ("PX-01", GATEWAY),
    ("PX-03", GATEWAY),
    ("PX-04", GATEWAY),
    ("RP-15", "it is about a hundred calls: tests/policies.rs"),
    ("RS-03", GATEWAY),
    ("RS-06", GATEWAY),
    ("RS-07", GATEWAY),
    ("RS-09", GATEWAY),
    ("RS-10", "the process is killed: tests/crash.rs"),
    ("RS-13", GATEWAY),
    ("RS-15", GATEWAY),
    ("RS-16", GATEWAY),
    ("RS-24", DECODER),
    ("RS-25", DECODER),
    ("ST-01", STORAGE),
    ("ST-03", STORAGE),
    ("ST-04", STORAGE),
    ("ST-06", STORAGE),
    ("ST-07", STORAGE),
    ("ST-09", STORAGE),
    ("ST-10", STORAGE),
    ("ST-12", STORAGE),
];
