//! The figure: two storms, each with the guards and without.

use crate::seen::Seen;
use crate::storms::{All, BURST, LENGTH, OUTAGE};
use std::fmt::Write as _;
use streamkeep::proto::breaker::BreakerState;

const WIDTH: u32 = 860;
const LEFT: u32 = 56;
const RIGHT: u32 = 24;
const PLOT: u32 = 200;

/// One picture, readable on light and on dark ground.
pub(crate) fn draw(all: &All) -> String {
    let mut out = String::new();
    let height = 640;
    let _ = write!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="t d">
<title id="t">Ten thousand clients and a failing provider, with guards and without</title>
<desc id="d">Above: attempts a second while everything fails for a minute and a half. Without guards they triple; with guards the circuit opens after two seconds and only probes go out. Below: retries a second while three of five calls are turned away for half a minute. Without guards there are more retries than calls; with guards they stay below a tenth.</desc>
<style>
text {{ font: 13px system-ui, sans-serif; fill: #24292f }} .small {{ font-size: 11px; fill: #57606a }} .head {{ font-weight: 600; font-size: 14px }}
.ground {{ fill: #ffffff }} .grid {{ stroke: #d0d7de; stroke-width: 1 }} .shade {{ fill: #f3d9d3 }}
.line {{ fill: none; stroke-width: 1.8; stroke-linejoin: round }} .bare {{ stroke: #c4432b }} .guarded {{ stroke: #0b66c3 }} .calls {{ stroke: #6e7781; stroke-dasharray: 4 3; stroke-width: 1.2 }}
.closed {{ fill: #2da44e }} .open {{ fill: #c4432b }} .half {{ fill: #bf8700 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #e6edf3 }} .small {{ fill: #9198a1 }} .ground {{ fill: #0d1117 }} .grid {{ stroke: #30363d }} .shade {{ fill: #3b1f1c }}
.bare {{ stroke: #ff7b62 }} .guarded {{ stroke: #58a6ff }} .calls {{ stroke: #9198a1 }} .closed {{ fill: #3fb950 }} .open {{ fill: #ff7b62 }} .half {{ fill: #d29922 }}
}}
</style>
<rect class="ground" width="{WIDTH}" height="{height}"/>
"#
    );
    let attempts = |seen: &Seen| seen.by_second(|slice| slice.attempts);
    let retries = |seen: &Seen| seen.by_second(|slice| slice.retries);
    let outage = Panel {
        top: 58,
        seconds: LENGTH.0,
        most: 400,
        step: 100,
        shaded: OUTAGE,
    };
    outage.frame(
        &mut out,
        "Attempts a second: the provider is down for a minute and a half",
    );
    let calls = all.outage_guarded.by_second(|slice| slice.arrivals);
    outage.line(&mut out, "calls", &calls);
    outage.line(&mut out, "bare", &attempts(&all.outage_bare));
    outage.line(&mut out, "guarded", &attempts(&all.outage_guarded));
    outage.breaker(&mut out, &all.outage_guarded);
    let burst = Panel {
        top: 380,
        seconds: LENGTH.1,
        most: 200,
        step: 50,
        shaded: BURST,
    };
    burst.frame(
        &mut out,
        "Retries a second: three of five calls are turned away for half a minute",
    );
    burst.line(&mut out, "bare", &retries(&all.burst_bare));
    burst.line(&mut out, "guarded", &retries(&all.burst_guarded));
    legend(&mut out, height - 18);
    out.push_str("</svg>\n");
    out
}

/// One plot: where it stands, and what its axes reach to.
struct Panel {
    top: u32,
    seconds: u64,
    most: u32,
    step: u32,
    shaded: (u64, u64),
}

impl Panel {
    fn x(&self, second: f64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred seconds")]
        let share = second / self.seconds as f64;
        f64::from(LEFT) + share * f64::from(WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let share = (value / f64::from(self.most)).min(1.0);
        f64::from(self.top + PLOT) - share * f64::from(PLOT)
    }

    fn frame(&self, out: &mut String, title: &str) {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred seconds")]
        let (from, to) = (self.x(self.shaded.0 as f64), self.x(self.shaded.1 as f64));
        let (top, bottom) = (self.top, self.top + PLOT);
        let _ = writeln!(
            out,
            r#"<text class="head" x="{LEFT}" y="{}">{title}</text>
<rect class="shade" x="{from:.1}" y="{top}" width="{:.1}" height="{PLOT}"/>"#,
            top - 14,
            to - from,
        );
        let mut value = 0;
        while value <= self.most {
            let y = self.y(f64::from(value));
            let _ = writeln!(
                out,
                r#"<line class="grid" x1="{LEFT}" x2="{}" y1="{y:.1}" y2="{y:.1}"/><text class="small" x="{}" y="{:.1}" text-anchor="end">{value}</text>"#,
                WIDTH - RIGHT,
                LEFT - 8,
                y + 4.0,
            );
            value += self.step;
        }
        let mut second = 0;
        while second <= self.seconds {
            #[expect(clippy::cast_precision_loss, reason = "a few hundred seconds")]
            let x = self.x(second as f64);
            let _ = writeln!(
                out,
                r#"<text class="small" x="{x:.1}" y="{}" text-anchor="middle">{second} s</text>"#,
                bottom + 16,
            );
            second += 15;
        }
    }

    /// A line through the means of two seconds each.
    fn line(&self, out: &mut String, class: &str, values: &[u32]) {
        let mut points = String::new();
        let mut second = 1.0;
        for pair in values.chunks_exact(2) {
            let mean = pair.iter().map(|value| f64::from(*value)).sum::<f64>() / 2.0;
            let _ = write!(points, "{:.1},{:.1} ", self.x(second), self.y(mean));
            second += 2.0;
        }
        let points = points.trim_end();
        let _ = writeln!(out, r#"<polyline class="line {class}" points="{points}"/>"#);
    }

    /// The states of the breaker, as a band below the plot.
    fn breaker(&self, out: &mut String, seen: &Seen) {
        let y = self.top + PLOT + 26;
        #[expect(clippy::cast_precision_loss, reason = "a few hundred seconds")]
        let end = self.seconds as f64;
        let ends = seen.states.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.map(|at| at.since_origin().as_secs_f64()).chain([end]);
        for ((from, state), to) in seen.states.iter().zip(ends) {
            let class = match state {
                BreakerState::Closed => "closed",
                BreakerState::Open => "open",
                BreakerState::HalfOpen => "half",
            };
            let (from, to) = (self.x(from.since_origin().as_secs_f64()), self.x(to));
            let _ = writeln!(
                out,
                r#"<rect class="{class}" x="{from:.1}" y="{y}" width="{:.1}" height="8"/>"#,
                (to - from).max(2.0),
            );
        }
        let _ = writeln!(
            out,
            r#"<text class="small" x="{LEFT}" y="{}">circuit breaker: green closed, red open, amber a probe is out</text>"#,
            y + 24,
        );
    }
}

fn legend(out: &mut String, y: u32) {
    let entries = [
        ("bare", "without guards"),
        ("guarded", "with guards"),
        ("calls", "calls that clients make"),
    ];
    let mut x = LEFT;
    for (class, text) in entries {
        let _ = writeln!(
            out,
            r#"<line class="line {class}" x1="{x}" x2="{}" y1="{}" y2="{}"/><text x="{}" y="{y}">{text}</text>"#,
            x + 28,
            y - 4,
            y - 4,
            x + 36,
        );
        x += 190;
    }
}
