//! What each path answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::extract::{Query, Request, State as Shared};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use firstmatch::core::live::Count;
use firstmatch::{LinkType, Outcome, Verdict};
use serde::Deserialize;
use serde_json::{Value, json};

use super::rules::Rates;
use super::state::{LaneReading, Link, Reload, State};
use super::text::{hex, unix};
use super::{guard, metrics, page};
use crate::Counts;
use crate::samples::Denied;

/// Header that a request to change something must have. No form of another page can send it.
const OURS: &str = "x-firstmatch";
/// Time for which a request waits for a reload.
const RELOAD: Duration = Duration::from_secs(60);
/// Number of rules in the state, and of denied packets.
const TOP: usize = 10;
const DENIED: usize = 20;
/// Number of bytes of a denied packet that are shown.
const SHOWN: usize = 96;

/// Returns the router of all paths, which only requests to the names `hosts` reach.
pub(super) fn router(state: Arc<State>, hosts: Arc<[String]>) -> Router {
    let policy: Arc<str> = page::policy().into();
    let reload = if state.about.allow_reload { post(reload) } else { MethodRouter::new() };
    Router::new()
        .route("/", get(move || async move { page::answer(&policy) }))
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics))
        .route("/api/state", get(overview))
        .route("/api/rules", get(rules))
        .route("/api/denied", get(denied))
        .route("/api/explain", get(explain))
        .route("/api/reload", reload)
        .with_state(state)
        .layer(from_fn(move |request: Request, next: Next| guard::check(Arc::clone(&hosts), request, next)))
}

/// Answers that frames are decided by the rules, or why not.
async fn healthz(Shared(state): Shared<Arc<State>>) -> Response {
    let faults = faults(&state.lanes(), &state.control().links);
    if faults.is_empty() {
        return "ok\n".into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, faults.join("\n") + "\n").into_response()
}

/// Returns the reasons for which frames are not decided by the rules.
fn faults(lanes: &[LaneReading], links: &[(String, Link)]) -> Vec<String> {
    let open = lanes.iter().filter(|lane| lane.counts.undecided > 0);
    let open = open.map(|lane| format!("{}: frames pass without rules, after a fault", lane.interface));
    let gone = links.iter().filter(|(_, link)| *link == Link::Gone).map(|(name, _)| format!("{name} is gone"));
    open.chain(gone).collect()
}

async fn metrics(Shared(state): Shared<Arc<State>>) -> Response {
    match metrics::encode(&state) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn overview(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let (reading, control) = (state.read(), state.control());
    let mut counts = Counts::default();
    reading.lanes.iter().for_each(|lane| counts.add_all(&lane.counts));
    let about = &state.about;
    let sum = |of: fn(&LaneReading) -> u64| reading.lanes.iter().map(of).sum::<u64>();
    let interfaces = control.links.iter().map(|(name, link)| json!({ "name": name, "link": word(*link) }));
    let top = {
        let rates = state.rates(Some(&reading));
        rates.busiest(TOP).into_iter().map(|at| rule(&rates, at)).collect::<Vec<_>>()
    };
    let unknown = counts.unknown().packets;
    Json(json!({
        "command": about.command,
        "version": about.version,
        "rules_file": about.rules_file,
        "engine": about.engine,
        "system": about.system,
        "generation": state.firewall.generation(),
        "rules": reading.rules.rules.len(),
        "memory_bytes": control.memory,
        "time": unix(SystemTime::now()),
        "uptime_seconds": state.begin.elapsed().as_secs_f64(),
        "allow_reload": about.allow_reload,
        "faults": faults(&reading.lanes, &control.links),
        "failed_open": counts.undecided > 0,
        "interfaces": interfaces.collect::<Vec<_>>(),
        "packets": counts.all().packets,
        "bytes": counts.all().bytes,
        "matched": counts.matched.packets,
        "unmatched": counts.all().packets - counts.matched.packets - unknown,
        "unknown": unknown,
        "removed_rules_packets": reading.removed.packets,
        "verdicts": verdicts(&reading.lanes, &counts),
        "outcomes": Outcome::ALL.into_iter().zip(counts.outcomes).map(|(of, count)| (of.name().to_owned(), count.packets.into())).collect::<serde_json::Map<_, _>>(),
        "losses": {
            "received": sum(|lane| lane.statistics.received),
            "decided": counts.all().packets,
            "lost": sum(|lane| lane.statistics.lost),
            "sent": counts.sent,
            "unsent": counts.unsent,
            "undecided": counts.undecided,
            "cut": counts.cut,
            "unfinished_checksums": counts.unfinished,
            "samples_dropped": counts.samples_dropped,
        },
        "lanes": reading.lanes.iter().map(|lane| json!({
            "interface": lane.interface,
            "worker": lane.worker,
            "packets": lane.counts.all().packets,
            "bytes": lane.counts.all().bytes,
            "received": lane.statistics.received,
            "lost": lane.statistics.lost,
            "sent": lane.counts.sent,
            "unsent": lane.counts.unsent,
        })).collect::<Vec<_>>(),
        "reloads": {
            "done": control.reloads[0],
            "refused": control.reloads[1],
            "last": control.last.map(|(result, time)| with_time(reloaded(&result), time)),
            "last_success": unix(control.success),
        },
        "history": control.history.points(),
        "top": top,
    }))
}

/// Returns packets and bytes by verdict.
fn verdicts(lanes: &[LaneReading], counts: &Counts) -> serde_json::Map<String, Value> {
    let of = |verdict| {
        let Count { packets, bytes } = counts.of(verdict);
        (verdict.to_string(), json!({ "packets": packets, "bytes": bytes }))
    };
    metrics::verdicts(lanes).into_iter().map(of).collect()
}

fn word(link: Link) -> &'static str {
    match link {
        Link::Up => "up",
        Link::Down => "down",
        Link::Gone => "gone",
    }
}

/// Returns a rule with its counts.
fn rule(rates: &Rates, at: usize) -> Value {
    let (rule, count) = (&rates.rules.rules[at], rates.counts[at]);
    json!({
        "rule": rule.id.to_string(),
        "line": rule.line,
        "label": rule.label,
        "text": rule.text,
        "action": rule.action.to_string(),
        "packets": count.packets,
        "bytes": count.bytes,
        "rate": rates.rates[at],
    })
}

#[derive(Deserialize)]
struct Top {
    top: Option<usize>,
}

async fn rules(Shared(state): Shared<Arc<State>>, Query(Top { top }): Query<Top>) -> Json<Value> {
    let rates = state.rates(None);
    let busiest = rates.busiest(top.unwrap_or(100));
    Json(busiest.into_iter().map(|at| rule(&rates, at)).collect())
}

async fn denied(Shared(state): Shared<Arc<State>>) -> Json<Value> {
    let (all, rules) = (state.denied(), state.control().rules);
    let show = |(interface, denied): (&str, Denied)| {
        let Denied { sample, decided } = denied;
        let now = state.firewall.explain(LinkType::Ethernet, sample.data());
        let (seconds, nanos) = sample.time();
        let rule = decided.rule.and_then(|id| rules.rules.iter().find(|rule| rule.id == id));
        json!({
            "time": f64::from(seconds) + f64::from(nanos) / 1e9,
            "interface": interface,
            "bytes": sample.bytes(),
            "data": hex(&sample.data()[..sample.data().len().min(SHOWN)]),
            "then": {
                "verdict": Verdict::Deny.to_string(),
                "rule": decided.rule.map(|id| id.to_string()),
                // A lane of planes knows no lines.
                "line": decided.line.or_else(|| rule?.line),
                "text": rule.and_then(|rule| rule.text.as_ref()),
                "outcome": decided.outcome.name(),
                "generation": decided.generation,
            },
            "now": {
                "verdict": now.decision.verdict.to_string(),
                "rule": now.decision.rule.map(|id| id.to_string()),
                "line": now.decision.line,
                "generation": state.firewall.generation(),
                "explanation": now.to_string(),
            },
            "differs": (now.decision.verdict, now.decision.rule) != (Verdict::Deny, decided.rule),
        })
    };
    Json(all.into_iter().take(DENIED).map(show).collect())
}

#[derive(Deserialize)]
struct Packet {
    packet: String,
}

async fn explain(Shared(state): Shared<Arc<State>>, Query(Packet { packet }): Query<Packet>) -> Response {
    match (state.explain)(packet.trim()) {
        Ok(explanation) => Json(json!({ "packet": packet, "explanation": explanation })).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response(),
    }
}

async fn reload(Shared(state): Shared<Arc<State>>, headers: HeaderMap) -> Response {
    if !headers.contains_key(OURS) {
        let error = json!({ "error": format!("the header {OURS} is missing") });
        return (StatusCode::FORBIDDEN, Json(error)).into_response();
    }
    let result = match state.request_reload() {
        Ok(result) => tokio::time::timeout(RELOAD, result).await,
        Err(error) => return (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    };
    match result {
        Ok(Ok(result)) => {
            let code = match result {
                Reload::Done { .. } => StatusCode::OK,
                Reload::Refused { .. } => StatusCode::UNPROCESSABLE_ENTITY,
            };
            (code, Json(reloaded(&result))).into_response()
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "error": "there was no answer" }))).into_response(),
    }
}

fn reloaded(result: &Reload) -> Value {
    match result {
        Reload::Done { kept, inserted, removed } => {
            json!({ "result": "done", "kept": kept, "inserted": inserted, "removed": removed })
        }
        Reload::Refused { text, place } => {
            let (line, column) = place.unzip();
            json!({ "result": "refused", "text": text, "line": line, "column": column })
        }
    }
}

fn with_time(mut value: Value, time: SystemTime) -> Value {
    value["time"] = unix(time).into();
    value
}
