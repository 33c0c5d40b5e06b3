//! What the server's own settings mean for the journals in it.

use super::link::Link;
use super::route::text;
use super::scripts::Request;
use redis::{Value, cmd};
use tracing::warn;

/// Says what the server's settings mean for the journals. Where the server does not
/// tell them, nothing is said.
pub(super) async fn look(link: &Link) {
    let Some(evicts) = setting(link, "maxmemory-policy").await else {
        return;
    };
    if evicts != "noeviction" {
        warn!(
            policy = %evicts,
            "when Redis is full it throws journals away; set maxmemory-policy to noeviction"
        );
    }
    if setting(link, "appendonly").await.as_deref() == Some("no") {
        warn!("Redis keeps no append-only file: journals do not survive its restart");
    }
}

async fn setting(link: &Link, name: &str) -> Option<String> {
    let mut get = cmd("CONFIG");
    get.arg("GET").arg(name);
    let request = Request::commands(0, vec![get]);
    let mut trying = link.trying();
    let (answers, _) = link.once(&mut trying, &request).await.ok()?;
    match answers.first()? {
        Value::Array(parts) => text(parts.get(1)?).map(str::to_owned),
        _ => None,
    }
}
