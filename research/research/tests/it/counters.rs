//! Whether promises that rest on counters alone are honest, compared with real runs, in the world for choices.

use progress::monitor::Quiet;
use research::evaluation::counting::Counting;
use research::worlds::Which;
use testbed::pool::Workers;

#[test]
fn gains_lie_within_two_errors_of_predictions_from_counters_and_none_is_a_loss() {
    let candidates = vec!["mq-deadline".to_owned(), "bfq".to_owned()];
    let counting = Counting { seed: 3, seeds: 1, world: Which::Build, is_quick: true, candidates };
    let report = counting.measure(Workers::new(&Quiet::default(), None)).unwrap();
    let answered = report.asked.iter().filter(|asked| asked.unanswered.is_none()).count();
    assert!(answered * 4 >= report.asked.len() * 3, "{}", report.text(None));
    let (requests, processes) = report.coverage();
    assert!(requests >= 0.75 && processes >= 0.75, "{}", report.text(None));
    let (_, lost, lost_by_processes, starved) = report.advice();
    assert_eq!((lost, lost_by_processes, starved), (0, 0, 0), "{}", report.text(None));
}
