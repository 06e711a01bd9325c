"""From raw files to records: clouds, instances, landmarks and queries."""
