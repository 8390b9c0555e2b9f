#!/usr/bin/env bash
# Applies every mutant of test/crash/mutants in turn to a copy of the tree and looks whether what must catch it does. A
# mutant that changes nothing or does not compile is a mistake of the mutant. Words after the command choose mutants.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
names=() checks=() verdicts=() bad=0
for mutant in test/crash/mutants/*.mutant; do
	name=$(basename "$mutant" .mutant)
	if (($#)) && ! printf '%s\n' "$@" | grep -qxF -e "$name" -e "${name%%-*}"; then continue; fi
	rm -rf "${copy:?}"/*
	git ls-files -co --exclude-standard -z | xargs -0 -I{} sh -c '[ -f "$1" ] && printf "%s\0" "$1"' sh {} | xargs -0 cp --parents -t "$copy"
	check='' file='' verdict=''
	while IFS= read -r line; do
		case $line in
		'#'* | '') ;;
		'caught '*) check=${line#caught } ;;
		'edit '*) file=$copy/${line#edit } ;;
		*)
			before=$(cksum <"$file")
			sed -i -e "$line" "$file"
			if [[ $(cksum <"$file") == "$before" ]]; then verdict="no mutant: changes nothing: $line"; fi
			;;
		esac
	done <"$mutant"
	if [[ -z $verdict ]] && ! out=$(cd "$copy" && go vet ./internal/journal ./internal/ledger ./internal/store 2>&1); then
		verdict="no mutant: does not compile"
		echo "$out"
	fi
	if [[ -z $verdict ]]; then
		if [[ $check == crash ]]; then
			run=(go test -count=1 -timeout 10m ./test/crash -args -kills "${KILLS:-6}")
		else
			read -ra run <<<"${check/go test/go test -count=1 -timeout 10m}"
		fi
		if out=$(cd "$copy" && "${run[@]}" 2>&1); then
			verdict='SURVIVED'
		elif grep -q -e '^--- FAIL' <<<"$out"; then
			verdict="caught: $(grep -m1 -e '^kills=' <<<"$out" || grep -m1 -o -e '_test.go:[0-9]*: .*' <<<"$out" | cut -c1-100)"
		else
			verdict='no verdict'
			echo "$out" | tail -20
		fi
	fi
	[[ $verdict == caught* ]] || bad=1
	echo "== $name: $verdict"
	names+=("$name") checks+=("$check") verdicts+=("$verdict")
done
printf '\n%-34s %-62s %s\n' mutant 'must be caught by' ''
for i in "${!names[@]}"; do printf '%-34s %-62s %s\n' "${names[i]}" "${checks[i]}" "${verdicts[i]}"; done
exit "$bad"
