use super::*;
use crate::proto::model::EndpointId;
use proptest::prelude::*;

fn at(millis: u64) -> Moment {
    Moment::from_origin(Duration::from_millis(millis))
}

fn bucket_only() -> BudgetConfig {
    BudgetConfig {
        window: None,
        ..BudgetConfig::ENDPOINT
    }
}

fn window_only() -> BudgetConfig {
    BudgetConfig {
        bucket: None,
        ..BudgetConfig::ENDPOINT
    }
}

fn granted(budget: &mut Budget, now: Moment, cost: Cost) -> usize {
    (0..10_000)
        .take_while(|_| budget.spend(now, cost).is_ok())
        .count()
}

#[test]
fn a_full_bucket_pays_for_so_many_retries_of_each_price() {
    for (cost, retries) in [
        (Cost::Throttled, 100),
        (Cost::Failed, 50),
        (Cost::Unknown, 20),
        (Cost::Hedge, 100),
    ] {
        let mut budget = Budget::new(bucket_only());
        assert_eq!(granted(&mut budget, at(0), cost), retries, "{cost:?}");
        let refused = budget.spend(at(0), cost);
        assert_eq!(refused, Err((Form::Bucket, None)), "{cost:?}");
    }
}

#[test]
fn ten_successes_pay_for_one_retry_and_never_overfill() {
    let mut budget = Budget::new(bucket_only());
    granted(&mut budget, at(0), Cost::Throttled);
    for _ in 0..9 {
        budget.success();
    }
    assert!(budget.spend(at(0), Cost::Throttled).is_err());
    budget.success();
    assert!(budget.spend(at(0), Cost::Throttled).is_ok());
    for _ in 0..100_000 {
        budget.success();
    }
    assert_eq!(granted(&mut budget, at(0), Cost::Throttled), 100);
}

#[test]
fn a_quiet_client_may_retry_the_minimum_and_then_waits_for_the_window() {
    let mut budget = Budget::new(window_only());
    assert_eq!(granted(&mut budget, at(0), Cost::Failed), 10);
    let Err((Form::Window, Some(wait))) = budget.spend(at(1000), Cost::Failed) else {
        panic!("expected the window to be spent");
    };
    assert!(wait >= Duration::from_secs(59), "{wait:?}");
    let later = at(1000).after(wait);
    assert!(budget.spend(later, Cost::Failed).is_ok());
}

#[test]
fn a_minutes_allowance_is_not_spent_in_one_burst() {
    let mut budget = Budget::new(window_only());
    for tenth in 0..600 {
        for _ in 0..10 {
            budget.request(at(tenth * 100));
        }
    }
    // 6000 requests in the minute, 200 in the last two seconds.
    let burst = granted(&mut budget, at(59_950), Cost::Failed);
    assert!((17..=20).contains(&burst), "{burst}");
    let refused = budget.spend(at(59_950), Cost::Failed);
    assert!(
        matches!(refused, Err((Form::Burst, Some(_)))),
        "{refused:?}"
    );
}

#[test]
fn what_is_wanted_all_the_time_is_granted_evenly() {
    // A hundred requests a second, each of which fails and wants to retry.
    let mut budget = Budget::new(window_only());
    let mut seconds = [0_u32; 180];
    for tick in 0..18_000_usize {
        let now = at(tick as u64 * 10);
        budget.request(now);
        if tick >= 6000 && budget.spend(now, Cost::Failed).is_ok() {
            seconds[tick / 100] += 1;
        }
    }
    let counted = &seconds[60..];
    let total: u32 = counted.iter().sum();
    assert!((1000..=1200).contains(&total), "{total}");
    let most = counted.iter().max().unwrap();
    assert!(*most <= 20, "{counted:?}");
    let longest_pause = counted.split(|n| *n > 0).map(<[u32]>::len).max().unwrap();
    assert!(longest_pause <= 2, "{counted:?}");
}

#[test]
fn a_cap_holds_whatever_the_traffic() {
    let mut budget = Budget::new(BudgetConfig {
        per_minute: Some(7),
        ..BudgetConfig::UNLIMITED
    });
    for _ in 0..1000 {
        budget.request(at(0));
    }
    assert_eq!(granted(&mut budget, at(0), Cost::Unknown), 7);
    assert_eq!(granted(&mut budget, at(66_000), Cost::Unknown), 7);
}

#[test]
fn unlimited_is_unlimited() {
    let mut budget = Budget::new(BudgetConfig::UNLIMITED);
    assert_eq!(granted(&mut budget, at(0), Cost::Unknown), 10_000);
}

#[test]
fn what_the_process_refuses_costs_the_endpoint_nothing() {
    let process = BudgetConfig {
        per_minute: Some(3),
        ..BudgetConfig::UNLIMITED
    };
    let mut budgets = Budgets::new(bucket_only(), process, 8);
    let (one, other) = (EndpointId::new("one"), EndpointId::new("other"));
    for _ in 0..3 {
        budgets.spend(at(0), &one, Cost::Failed).unwrap();
    }
    let before = budgets.snapshot(at(0));
    let refused = budgets.spend(at(0), &other, Cost::Failed).unwrap_err();
    assert_eq!(refused.scope, Scope::Process);
    assert_eq!(refused.which, Form::PerMinute);
    let _ = budgets.spend(at(0), &one, Cost::Failed).unwrap_err();
    let after = budgets.snapshot(at(0));
    assert_eq!(after.process, before.process);
    assert_eq!(after.endpoints[0], before.endpoints[0]);
    assert_eq!(after.endpoints[1].1.tokens, Some(Tokens::new(100)));
}

#[test]
fn one_endpoint_that_is_down_leaves_the_others_their_retries() {
    let process = BudgetConfig {
        window: None,
        ..BudgetConfig::PROCESS
    };
    let mut budgets = Budgets::new(bucket_only(), process, 8);
    let (down, well) = (EndpointId::new("down"), EndpointId::new("well"));
    while budgets.spend(at(0), &down, Cost::Unknown).is_ok() {}
    assert!(budgets.spend(at(0), &well, Cost::Unknown).is_ok());
}

#[test]
fn the_number_of_endpoints_is_bounded() {
    let mut budgets = Budgets::new(BudgetConfig::ENDPOINT, BudgetConfig::PROCESS, 8);
    for n in 0..100_u64 {
        budgets.request(at(n), &EndpointId::new(&n.to_string()));
    }
    let names: Vec<_> = budgets.snapshot(at(100)).endpoints;
    let mut names: Vec<u64> = names
        .iter()
        .map(|(id, _)| id.as_str().parse().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names, (92..100).collect::<Vec<_>>());
}

#[derive(Clone, Debug)]
enum Act {
    Pass(u64),
    Request,
    Success,
    Spend(Cost),
}

fn act() -> impl Strategy<Value = Act> {
    let cost = prop::sample::select(vec![
        Cost::Throttled,
        Cost::Failed,
        Cost::Unknown,
        Cost::Hedge,
    ]);
    prop_oneof![
        2 => (0..4000_u64).prop_map(Act::Pass),
        6 => Just(Act::Request),
        2 => Just(Act::Success),
        4 => cost.prop_map(Act::Spend),
    ]
}

/// What happened within this long before `now`, counted one by one.
fn exactly(log: &[u64], now: u64, span: u64) -> u64 {
    let recent = log.iter().filter(|then| now - **then < span);
    recent.count() as u64
}

proptest! {
    #[test]
    fn every_granted_retry_kept_every_limit_in_every_position_of_the_window(
        acts in prop::collection::vec(act(), 1..600)
    ) {
        let config = BudgetConfig {
            window: Some(WindowConfig { minimum: 2, ..BudgetConfig::ENDPOINT.window.unwrap() }),
            per_minute: Some(40),
            ..BudgetConfig::ENDPOINT
        };
        let mut budget = Budget::new(config);
        let (mut now, mut tokens) = (0_u64, 100_000_u64);
        let (mut requests, mut retries) = (Vec::new(), Vec::new());
        for act in acts {
            match act {
                Act::Pass(millis) => now += millis,
                Act::Request => {
                    budget.request(at(now));
                    requests.push(now);
                }
                Act::Success => {
                    budget.success();
                    tokens = (tokens + 100).min(100_000);
                }
                Act::Spend(cost) => {
                    let before = budget.snapshot(at(now));
                    if budget.spend(at(now), cost).is_err() {
                        prop_assert_eq!(budget.snapshot(at(now)), before);
                        continue;
                    }
                    retries.push(now);
                    let price = Prices::DEFAULT.of(cost).thousandths();
                    prop_assert!(tokens >= price, "overdrawn");
                    tokens -= price;
                    for span in [60_000, 10_000, 2_000] {
                        let share = exactly(&requests, now, span) / 10;
                        prop_assert!(exactly(&retries, now, span) <= share.max(2));
                    }
                    prop_assert!(exactly(&retries, now, 60_000) <= 40);
                }
            }
            prop_assert_eq!(budget.snapshot(at(now)).tokens, Some(Tokens::from_thousandths(tokens)));
        }
    }
}
