"""What a plan would do to two arms that are alike, played on recorded windows of the baseline."""
