package diagnose

import "context"

func checkEncryptionProvider(ctx context.Context, e *exam) finding { return skipped("not examined") }

func checkEncryptionIdentity(ctx context.Context, e *exam) finding { return skipped("not examined") }
