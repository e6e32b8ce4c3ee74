"""What a run tells of itself to systems that watch over clusters. Nothing here can fail a run, or hold it back."""
