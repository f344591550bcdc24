//! Where a text ends.

/// The position in `text` where the first of the stop strings begins, if one is there.
pub(super) fn find_stop(text: &str, stop_strings: &[String]) -> Option<usize> {
    stop_strings.iter().filter_map(|stop| text.find(stop)).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_stop_string_wins_wherever_it_stands_in_the_list() {
        let stops = ["\n\n".to_owned(), "END".to_owned()];
        assert_eq!(find_stop("a END b\n\n", &stops), Some(2));
        assert_eq!(find_stop("a EN", &stops), None);
    }
}
