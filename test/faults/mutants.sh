#!/usr/bin/env bash
# Breaks the gateway in one line at a time, in a scratch copy of the last commit, and says which test notices. By hand:
#   test/faults/mutants.sh            every mutation
#   test/faults/mutants.sh 401        those whose name has 401 in it
# A line "NOT CAUGHT" or "does not apply" is work for somebody.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
only=${1:-}
scratch=$(mktemp -d)
trap 'git worktree remove --force "$scratch/tree" >/dev/null 2>&1 || true; rm -rf "$scratch"' EXIT
git worktree add --quiet --detach "$scratch/tree" HEAD
cd "$scratch/tree"

# mutant NAME FILE PERL PLACES: PERL is a substitution on the whole file; PLACES are "package:run" in the order in which
# they are tried.
mutant() {
	local name=$1 file=$2 change=$3 place failed
	shift 3
	[[ "$name" == *"$only"* ]] || return 0
	perl -0pi -e "$change" "$file"
	if git diff --quiet; then
		echo "| $name | does not apply |"
		return 0
	fi
	failed="NOT CAUGHT"
	if ! go build ./... 2>"$scratch/out"; then
		failed="does not compile: $(sed -n 2p "$scratch/out")"
	else
		for place in "$@"; do
			if ! timeout 300 go test -failfast -run "${place#*:}" "./${place%%:*}" >"$scratch/out" 2>&1; then
				failed="\`${place%%:*}\` $(grep -E -- '--- FAIL|^panic: |too long' "$scratch/out" | awk '{print length($3), $3}' | sort -rn | sed -n '1s/^[0-9]* //p' || true)"
				break
			fi
		done
	fi
	echo "| $name | $failed |"
	git checkout --quiet -- .
}

health=internal/health/health.go # the places where most of it is
attempt=internal/relay/attempt.go
finish=internal/relay/finish.go
stream=internal/upstream/stream.go
verdict=internal/upstream/verdict.go
filter=internal/chain/filter.go
build=internal/chain/chain.go

echo "| breakage | caught by |"
echo "| --- | --- |"
mutant "health: four failures in a row until cooldown" $health 's/Threshold = 3/Threshold = 4/' 'test/faults:TestStatuses/500$'
mutant "health: a cooldown of 6 s" $health 's/Cooldown = 60 \* time/Cooldown = 6 * time/' internal/health:.
mutant "health: a success does not clear the count" $health 's/t\.state\[i\]\.failures, t\.state\[i\]\.limits = 0, 0\n//' internal/health:.
mutant "health: a 429 counts to the three" $health 's/case RateLimited:\n/case RateLimited:\n\t\tif t.state[p.i].failures++; t.state[p.i].failures >= Threshold {\n\t\t\tt.takeOut(p.i, hearth.EndpointHealth{Skip: hearth.SkipCooldown, Until: now.Add(Cooldown)}, now)\n\t\t\treturn\n\t\t}\n/' internal/health:.
mutant "health: a 429 does not take the endpoint out" $health 's/Until: now\.Add\(t\.limit\(p\.i, news, retryAfter\)\)/Until: now/' 'test/faults:TestStatuses/429'
mutant "health: Retry-After is not heeded" $health 's/if asked > 0 \{/if false {/' internal/health:. 
mutant "health: Retry-After has no bound" $health 's/return min\(asked, MaxRetryAfter\)/return asked/' internal/health:.
mutant "health: a 401 takes out one endpoint of the account" $health 's/if account == t\.account\[p\.i\]/if j == p.i \&\& account != nil/' 'test/faults:TestStatuses/401'
mutant "health: the probe is not given back" $health 's/if p\.probe != 0 && s\.probing == p\.probe \{\n\t\ts\.probing = 0/if p.probe != 0 \&\& s.probing == p.probe {/' internal/health:.
mutant "health: many probes at once" $health 's/s\.probing != 0 && left > 0 && left <= valid/left > 0 \&\& false/' internal/health:.
mutant "relay: a failure is not told to health" $attempt 's/o\.health = health\.Failure/o.health = health.NoVerdict/' 'test/faults:TestStatuses/50'
mutant "relay: the fault of a request is blamed on the provider" $attempt 's/o\.health = health\.NoVerdict/o.health = health.Failure/' 'test/faults:TestStatuses/4'
mutant "relay: the place in the slot is not given back" $attempt 's/\t\tg\.lease\.Release\(\)\n//' 'test/faults:TestLeaving/mid-stream/slot'
mutant "relay: the permit is not given back" $attempt 's/\t\tg\.permit\.Done\(o\.health[^\n]*\n//' 'test/faults:TestStatuses/50'
mutant "relay: a cut whole answer goes on to the next candidate" $attempt 's/o\.broken\(opened\.Cut\)/o.failed(opened.Cut)/' 'test/faults:TestBreaks/cut'
mutant "relay: who leaves is tried elsewhere" $attempt 's/o\.Verdict, o\.Skip = hearth\.Gone, hearth\.SkipCancelled/o.Verdict, o.Skip = hearth.TryNext, hearth.SkipCancelled/' internal/relay:.
mutant "relay: a broken stream ends like a good one" $finish 's/if o\.Verdict == hearth\.Broken \{\n\t\treturn r\.refuse/if o.Verdict == hearth.Broken \&\& !x.begun {\n\t\treturn r.refuse/' 'test/faults:TestBreaks/cut'
mutant "relay: a broken stream is billed" $finish 's/g\.FinishReason = "error"/g.FinishReason = "stop"/' 'test/faults:TestBreaks' internal/relay:.
mutant "relay: the record is written after the last byte" $finish 's/if err := r\.record\(x\); err != nil \{\n\t\t\/\/ An answer/if err := error(nil); err != nil {\n\t\t\/\/ An answer/' 'test/faults:TestEnds'
mutant "relay: the memory of bodies is not given back" internal/relay/body.go 's/b\.relay\.bodies\.Add\(-b\.held\)//' 'test/faults:TestBodyBudget'
mutant "relay: chunked bodies have no bound" internal/relay/body.go 's/if int64\(len\(b\.raw\)\) > b\.relay\.opt\.MaxBody/if false/' 'test/faults:TestBodyTooLarge'
mutant "relay: all timed out is a 502" internal/relay/fail.go 's/case every\(func\(a \*hearth\.Attempt\) bool \{ return a\.TimedOut \}\):/case false:/' 'test/faults:TestWholeChainFails'
mutant "relay: the largest Retry-After is told" internal/relay/fail.go 's/a\.RetryAfter < least/a.RetryAfter > least/' 'test/faults:TestWholeChainFails'
mutant "upstream: EOF is as good as [DONE]" $stream 's/if !s\.done && !s\.said/if false/' 'test/faults:TestBreaks/EOF'
mutant "upstream: the role commits the stream" internal/upstream/commit.go 's/step == stepContent \|\|/step == stepNothing || step == stepContent ||/' 'test/faults:TestStarts'
mutant "upstream: no idle limit" internal/upstream/watchdog.go 's/b\.w\.arm\(b\.idle, errIdle\)//' 'test/faults:TestBreaks/stalled'
mutant "upstream: no first-byte limit" internal/upstream/open.go 's/op\.w\.arm\(d, cause\)/op.w.arm(0, cause)/' 'test/faults:TestConnections/headers,'
mutant "upstream: secrets are not looked for" internal/upstream/open.go 's/f\.hide\(t\.secrets\)//' 'test/faults:TestSecrets'
mutant "upstream: secrets are not looked for mid-stream" $stream 's/f\.hide\(s\.secrets\)//' 'test/faults:TestSecretsInBand'
mutant "upstream: the header of an answer has no bound" internal/upstream/client.go 's/maxHeaders    = 256 << 10/maxHeaders    = 1 << 40/' 'test/faults:TestConnections/10_MB'
mutant "upstream: engines are reached through a proxy" internal/upstream/client.go 's/t\.Proxy = nil\n//' 'test/faults:TestProxyVariables'
mutant "upstream: a stream may go on past the output limit" $stream 's/return stepTooMuch/return stepContent/' 'test/faults:TestBreaks/an_endless_stream_past'
mutant "upstream: a malformed event ends the answer well" $stream 's/case st == stepMalformed && s\.finished\(\):/case st == stepMalformed:/' 'test/faults:TestBreaks/not_JSON'
mutant "upstream: a caller that takes nothing is waited for" internal/upstream/sink.go 's/if k\.limit <= 0 \{/if true {/' 'test/faults:TestWriteDeadline'
mutant "upstream: the end of a connection is awaited for ever" $stream 's/s\.w\.arm\(eofWait, errEnough\)//' 'test/faults:TestEnds/silence'
mutant "upstream: the text of an error is awaited for ever" internal/upstream/open.go 's/op\.w\.arm\(errorWait, errEnough\)//' 'test/faults:TestStatuses/500_whose_body_stalls'
mutant "chain: provider.only is not heeded" $filter 's/len\(p\.Only\) > 0 && !matchesAny\(e, p\.Only\)/false/' 'test/faults:TestLocalRedirects'
mutant "chain: local_only is not heeded" $filter 's/case k\.LocalOnly && !e\.Local\(\):/case false:/' 'test/faults:TestLocalRedirects'
mutant "chain: endpoints in cooldown are candidates" $filter 's/h != nil && h\.Out\(b\.Now\)/false/' 'test/faults:TestStatuses/401' internal/chain:.
mutant "chain: fallbacks are always allowed" $build 's/if b\.Request\.Prefs\.NoFallbacks \{/if false {/' 'test/faults:TestWholeChainFails/fallbacks'
mutant "chain: the loaded model does not go first" $build 's/if !b\.sorted \{\n\t\tresidentFirst/if false {\n\t\tresidentFirst/' internal/chain:.
mutant "chain: disabled endpoints are candidates" $filter 's/if e\.Disabled \{/if false {/' internal/chain:. 'test/faults:TestLocalStates'
