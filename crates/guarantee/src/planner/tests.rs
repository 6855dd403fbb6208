//! The planner on the paper's Table I, and on anything.

use proptest::prelude::*;

use super::*;

/// Table I as demands, where every volume keeps its reference disk busy.
fn survey(rows: &[&[f64]], capacities: [f64; 3]) -> Survey {
    let arrays = ["A", "B", "SSD"].iter().zip(capacities).map(|(name, capacity)| ((*name).to_owned(), capacity, 1000)).collect();
    let volumes: Vec<(String, u64)> = (1..=rows[0].len()).map(|number| (format!("VSD {number}"), 10)).collect();
    let rates = vec![1.0; volumes.len()];
    let demands = rows.iter().map(|row| row.iter().map(|percent| percent / 100.0).collect()).collect();
    Survey::of(vec![Consumption::new(demands, rates)], arrays, volumes, Rules::default())
}

const TABLE_I: [&[f64]; 3] = [&[53.0, 12.0, 33.0, 2.0], &[10.0, 54.0, 30.0, 6.0], &[8.0, 68.0, 16.0, 8.0]];

#[test]
fn table_i_volumes_1_and_2_swap_places_and_volume_4_is_insignificant() {
    let survey = survey(&TABLE_I, [0.6, 0.6, 0.7]);
    let before = vec![Some(0), Some(2), Some(1), Some(0)];
    let findings = survey.findings(&before, &[]);
    assert!(matches!(findings[0].standing, Standing::Misplaced { to: 2, .. }), "{}", findings[0].text);
    assert!(matches!(findings[1].standing, Standing::Misplaced { to: 0, .. }), "{}", findings[1].text);
    assert_eq!(findings[3].standing, Standing::Insignificant, "{}", findings[3].text);
    let plan = survey.plan(&before);
    let first = &plan.steps[0];
    assert_eq!(first.moves, [Move { volume: 1, from: 2, to: 0 }, Move { volume: 0, from: 0, to: 2 }], "{}", first.reason);
    assert!(first.reason.contains("68.0%") && first.reason.contains("12.0%") && first.reason.contains("8.0%"), "{}", first.reason);
    assert_eq!(plan.after[3], Some(0), "volume 4 stays");
}

#[test]
fn the_time_of_a_volume_counts_in_what_fits_and_not_in_its_share() {
    let arrays = vec![("A".to_owned(), 1.0, 1000)];
    let volumes = vec![("VSD 1".to_owned(), 10), ("VSD 2".to_owned(), 10)];
    let sample = Consumption::new(vec![vec![0.1, 0.3]], vec![0.5, 1.0]).with_times(vec![vec![0.6, 0.2]]);
    let survey = |basis| Survey::of(vec![sample.clone()], arrays.clone(), volumes.clone(), Rules { basis, ..Rules::default() });
    let both = vec![Some(0), Some(0)];
    let (reference, sampled) = (survey(Basis::Reference), survey(Basis::Sampled));
    assert!((reference.load(&both, 0) - 0.9).abs() < 1e-9 && (sampled.load(&both, 0) - 0.6).abs() < 1e-9);
    assert!((reference.share(0, 0) - 0.25).abs() < 1e-9);
    assert_eq!(reference.more_like(&both, 1), 0, "0.3 of 0.1 that is left");
}

#[test]
fn a_misplaced_volume_migrates_where_there_is_room_as_volume_7_of_table_ii_does() {
    let rows: [&[f64]; 3] = [
        &[7.6, 7.6, 7.6, 31.0, 7.6, 7.6, 31.0],
        &[8.4, 8.4, 8.4, 29.0, 8.4, 8.4, 8.4],
        &[14.2, 14.2, 14.2, 14.5, 14.2, 14.2, 14.5],
    ];
    let before: Assignment = [0, 0, 2, 2, 1, 1, 0].map(Some).to_vec();
    let plan = survey(&rows, [1.0; 3]).plan(&before);
    assert_eq!(plan.steps[0].moves, [Move { volume: 6, from: 0, to: 1 }], "its least share is on B in the printed table");
    assert_eq!(plan.steps.len(), 1, "{:?}", plan.steps);
}

#[test]
fn a_volume_misplaced_in_some_samples_only_stays() {
    let (one, other) = (survey(&TABLE_I, [1.0; 3]), survey(&[TABLE_I[2], TABLE_I[1], TABLE_I[0]], [1.0; 3]));
    let samples = [one.samples.clone(), other.samples].concat();
    let survey = Survey { samples, ..one };
    let before = vec![Some(0), Some(2), Some(1), Some(0)];
    let findings = survey.findings(&before, &[]);
    assert!(matches!(findings[0].standing, Standing::Wavering { to: 2 }), "{}", findings[0].text);
    assert!(matches!(findings[1].standing, Standing::Wavering { to: 0 }), "{}", findings[1].text);
    assert_eq!(survey.plan(&before).steps, []);
}

#[test]
fn what_is_misplaced_and_has_no_room_is_left_with_a_reason() {
    let plan = survey(&TABLE_I, [0.05, 0.3, 0.7]).plan(&vec![None, Some(2), Some(1), None]);
    assert_eq!(plan.steps, []);
    let left: Vec<usize> = plan.left.iter().map(|(volume, _)| *volume).collect();
    assert_eq!(left, [1, 2]);
    assert!(plan.left[1].1.contains("needs 16.0% of it where 2.0% is left"), "{}", plan.left[1].1);
}

#[test]
fn a_volume_of_an_oversold_array_is_not_well_placed_and_leaves_for_one_with_room() {
    let rows: [&[f64]; 2] = [&[60.0, 70.0], &[60.0, 70.0]];
    let survey_of = |other: f64| {
        let arrays = [("A", 1.0), ("B", other)].map(|(name, capacity)| (name.to_owned(), capacity, 1000)).to_vec();
        let volumes = (1..=2).map(|number| (format!("VSD {number}"), 10)).collect();
        let demands = rows.iter().map(|row| row.iter().map(|percent| percent / 100.0).collect()).collect();
        Survey::of(vec![Consumption::new(demands, vec![1.0; 2])], arrays, volumes, Rules::default())
    };
    let both = vec![Some(0), Some(0)];
    let survey = survey_of(0.65);
    assert!(survey.is_oversold(&both, 0) && !survey.is_oversold(&both, 1));
    let findings = survey.findings(&both, &[0]);
    assert!(findings.iter().all(|finding| finding.standing == Standing::Oversold), "{findings:?}");
    let plan = survey.plan(&both);
    assert_eq!(plan.steps.len(), 1, "one that leaves is enough");
    assert_eq!(plan.steps[0].moves, [Move { volume: 0, from: 0, to: 1 }], "the larger one has no room");
    assert!(plan.steps[0].reason.contains("A is oversold, and VSD 1 needs 60.0% of it"), "{}", plan.steps[0].reason);
    assert_eq!(survey_of(0.5).plan(&both).steps, [], "nothing that moves would help");
}

#[test]
fn new_volumes_go_where_most_is_spare_or_where_they_are_at_home() {
    let survey = survey(&TABLE_I, [1.0; 3]);
    let nowhere = vec![None; 4];
    assert_eq!(survey.initial(&nowhere, 1, Initial::LargestSpare), Ok(0), "all are empty: the first");
    assert_eq!(survey.initial(&nowhere, 0, Initial::LeastShare), Ok(2));
    let full = super::tests::survey(&TABLE_I, [0.01; 3]);
    let rejected = full.initial(&nowhere, 0, Initial::LargestSpare).unwrap_err();
    assert!(rejected.text.contains("needs 53.0% of A, which has 1.0% left"), "{}", rejected.text);
}

#[test]
fn room_is_made_by_moving_others() {
    // Volume 3 fits nowhere, unless 1 and 2 swap places.
    let rows: [&[f64]; 2] = [&[60.0, 10.0, 80.0], &[20.0, 70.0, 90.0]];
    let arrays = vec![("A".to_owned(), 1.0, 1000), ("B".to_owned(), 1.0, 1000)];
    let volumes = (1..=3).map(|number| (format!("VSD {number}"), 10)).collect();
    let demands = rows.iter().map(|row| row.iter().map(|percent| percent / 100.0).collect()).collect();
    let survey = Survey::of(vec![Consumption::new(demands, vec![1.0; 3])], arrays, volumes, Rules::default());
    let before = vec![Some(0), Some(1), None];
    assert!(survey.initial(&before, 2, Initial::LargestSpare).is_err());
    let (steps, home) = survey.make_room(&before, 2).unwrap();
    let mut after = before;
    steps.iter().flat_map(|step| &step.moves).for_each(|each| after[each.volume] = Some(each.to));
    after[2] = Some(home);
    assert!(survey.keeps_capacity(&after), "{steps:?}");
}

/// Some arrays and volumes in several samples, and where the volumes are.
fn anything() -> impl Strategy<Value = (Survey, Assignment)> {
    (2usize..5, 1usize..9, 1usize..4, 0.02f64..0.3).prop_flat_map(|(arrays, volumes, samples, threshold)| {
        let matrix = proptest::collection::vec(proptest::collection::vec(0.0f64..0.9, volumes), arrays);
        let samples = proptest::collection::vec((matrix, proptest::collection::vec(0.1f64..=1.0, volumes)), samples);
        let capacities = proptest::collection::vec((0.2f64..=1.0, 5u64..60), arrays);
        let sizes = proptest::collection::vec(1u64..20, volumes);
        let places = proptest::collection::vec(proptest::option::weighted(0.9, 0..arrays), volumes);
        (samples, capacities, sizes, places).prop_map(move |(samples, capacities, sizes, places)| {
            let samples = samples.into_iter().map(|(demands, rates)| Consumption::new(demands, rates)).collect();
            let arrays =
                capacities.into_iter().enumerate().map(|(number, (part, sectors))| (format!("array {number}"), part, sectors));
            let volumes = sizes.into_iter().enumerate().map(|(number, sectors)| (format!("volume {number}"), sectors));
            let rules = Rules { threshold, ..Rules::default() };
            (Survey::of(samples, arrays.collect(), volumes.collect(), rules), places)
        })
    })
}

proptest! {
    #[test]
    fn a_plan_ends_and_overcommits_nothing_and_moves_nothing_for_less_than_the_threshold((survey, before) in anything()) {
        let plan = survey.plan(&before);
        let mut now = before;
        for step in &plan.steps {
            let mut after = now.clone();
            for each in &step.moves {
                prop_assert_eq!(now[each.volume], Some(each.from));
                let is_relief = survey.is_oversold(&now, each.from) && !survey.is_oversold(&now, each.to);
                prop_assert!(is_relief || survey.reduction(each.volume, each.from, each.to) > survey.rules.threshold);
                after[each.volume] = Some(each.to);
            }
            for array in 0..survey.arrays() {
                let most = survey.capacity(array).max(survey.load(&now, array));
                prop_assert!(survey.load(&after, array) <= most + 1e-6, "{}", step.reason);
                let comes: u64 = step.moves.iter().filter(|each| each.to == array).map(|each| survey.sectors(each.volume)).sum();
                prop_assert!(comes <= survey.free_sectors(&now, array), "space for both copies: {}", step.reason);
            }
            now = after;
        }
        prop_assert_eq!(&now, &plan.after);
        prop_assert!(survey.plan(&now).steps.is_empty(), "nothing is left to do");
    }

    #[test]
    fn room_that_is_made_is_room((survey, before) in anything()) {
        let mut now = before;
        for volume in 0..survey.volumes() {
            if now[volume].is_none() && survey.keeps_capacity(&now)
                && let Ok((steps, home)) = survey.make_room(&now, volume)
            {
                steps.iter().flat_map(|step| &step.moves).for_each(|each| now[each.volume] = Some(each.to));
                now[volume] = Some(home);
                prop_assert!(survey.keeps_capacity(&now));
            }
        }
    }
}
