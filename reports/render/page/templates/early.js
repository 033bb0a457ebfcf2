document.documentElement.classList.add("live"); // without scripts every case is shown, one below the other
