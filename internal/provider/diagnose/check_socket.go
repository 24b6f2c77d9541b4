package diagnose

import "context"

func checkSocketPath(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkSocketKMS(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkConsistency(ctx context.Context, e *exam) finding { return skipped("not examined") }
