"""How long the first token may take, and how long a smoke test waits to see that."""

# A prompt of one token waits for one prefill of other users at most; nobody waits longer for a
# first word and believes that the engine works.
FIRST_TOKEN_SECONDS = 20.0
# Times the deadline of an ordinary request: late is another finding than never.
PATIENCE = 4
