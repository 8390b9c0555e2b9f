module myip.co.kr/hearth/ci

go 1.26.0
