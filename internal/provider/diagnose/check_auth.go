package diagnose

import "context"

func checkMaterial(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkLogin(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkPolicy(ctx context.Context, e *exam) finding { return skipped("not examined") }
