package diagnose

import "context"

func checkReachable(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkTLS(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkClock(ctx context.Context, e *exam) finding { return skipped("not examined") }
